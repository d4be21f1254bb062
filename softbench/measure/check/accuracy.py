"""Measures the errors of a right output while it is compared, without waiting for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softbench.cases.operators import Expected
from softbench.model import Accuracy

if TYPE_CHECKING:
    from torch import Tensor

BINS = 1000
"""Of the histogram from which the percentile is read: it is right to a thousandth of the bound."""
DIGITS = 4


class Errors:
    """The errors of all blocks so far, over their bounds; elements without a bound, or not finite, are left out."""

    def __init__(self) -> None:
        self._largest: list[Tensor] = []
        self._sums: list[Tensor] = []
        self._bins: Tensor | None = None

    def add(self, expected: Expected, got: Tensor) -> None:
        """One block of an output (rows, width), in its own dtype or in float64."""
        import torch

        error = torch.sub(got, expected.values).div_(expected.allowed)
        error.nan_to_num_(nan=-2.0, posinf=-2.0, neginf=-2.0)
        known = error >= -1
        self._sums.append(error.where(known, 0.0).sum())
        error.abs_()
        self._largest.append(error.where(known, 0.0).amax())
        bins = torch.histc(error, BINS, 0.0, 1.0)  # leaves out what is beyond
        self._bins = bins if self._bins is None else self._bins.add_(bins)

    def found(self) -> Accuracy | None:
        """None if no element has a bound. The outputs were right."""
        import torch

        counts = [] if self._bins is None else self._bins.cumsum(0).tolist()
        if not counts or not counts[-1]:
            return None
        largest, total = torch.stack(self._largest).max(), torch.stack(self._sums).sum()
        most, bias = min(1.0, round(float(largest), DIGITS)), round(float(total) / counts[-1], DIGITS) + 0.0
        at = next(number for number, count in enumerate(counts, start=1) if count >= 0.99 * counts[-1])
        return Accuracy(most, min(most, at / BINS), bias, int(counts[-1]))
