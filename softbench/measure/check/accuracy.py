"""Measures the errors of a right output while it is compared, without waiting for the device."""

import random

from softbench.cases.operators import Expected
from softbench.model import Accuracy, Tensor

BINS = 1000
"""Of the histogram from which the percentile is read: it is right to a thousandth of the bound."""
DIGITS = 4
MOST_ELEMENTS = 2**24
"""About as many are measured: a check compares all of up to a thousand million, and this would take as long again."""


class Errors:
    """Errors of blocks over their bounds; elements without a bound, or not finite, are left out.

    elements  how many there are; of more than `MOST_ELEMENTS` some blocks are measured, the first and others at random
    """

    def __init__(self, elements: int) -> None:
        self._share, self._rng = MOST_ELEMENTS / max(1, elements), random.Random(elements)
        self._largest: list[Tensor] = []
        self._sums: list[Tensor] = []
        self._bins: Tensor | None = None

    def add(self, expected: Expected, got: Tensor) -> None:
        """One block of an output (rows, width), in its own dtype or in float64."""
        import torch

        if self._largest and self._rng.random() >= self._share:
            return
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
