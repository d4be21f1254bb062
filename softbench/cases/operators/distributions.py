"""The named distributions: how torch's generator draws a slab of an input's rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator, Tensor

SEGMENT_COLUMNS = 256


@dataclass(frozen=True)
class Slab:
    """Rows to be drawn: x (rows, columns) in place; i (rows, 1) and j (1, columns) are indices in the whole input."""

    x: Tensor
    i: Tensor
    j: Tensor
    generator: Generator

    @property
    def columns(self) -> int:
        return int(self.x.shape[1])

    @property
    def lowest(self) -> float:
        import torch

        return float(torch.finfo(self.x.dtype).min)

    @property
    def special(self) -> Tensor:
        """(rows, 1) bool: every second row, for distributions that change only those."""
        return self.i % 2 == 0

    def normal(self) -> None:
        """Independent standard normals."""
        self.x.normal_(generator=self.generator)

    def put(self, word: str, where: Tensor) -> None:
        self.x.masked_fill_(where, self.lowest if word == "min" else float(word))


def _uniform(slab: Slab, low: float, high: float) -> None:
    slab.x.uniform_(low, high, generator=slab.generator)


def _peaked(slab: Slab) -> None:
    """Normals, and one element 20 above them in every row."""
    import torch

    slab.normal()
    peak = torch.randint(slab.columns, slab.i.shape, generator=slab.generator, device=slab.x.device)
    slab.x.scatter_(1, peak, 20.0)


def _equal(slab: Slab) -> None:
    value = slab.x.new_empty(slab.i.shape).normal_(generator=slab.generator)
    slab.x.copy_(value.expand_as(slab.x))


def _shifted(slab: Slab, shift: float) -> None:
    slab.normal()
    slab.x.add_(shift).clamp_(slab.lowest, -slab.lowest)  # float16 cannot hold 1e5


def _dtype_max(slab: Slab) -> None:
    """A third each of the dtype's largest value, its smallest value and normals."""
    import torch

    slab.normal()
    third = torch.randint(3, slab.x.shape, generator=slab.generator, device=slab.x.device, dtype=torch.int8)
    slab.put("min", third == 0)
    slab.x.masked_fill_(third == 1, -slab.lowest)


def _causal(slab: Slab, word: str) -> None:
    slab.normal()
    slab.put(word, slab.j > slab.i % slab.columns)


def _padding(slab: Slab, word: str) -> None:
    """Normals; the word's value after a random valid length of each row, at least 1."""
    import torch

    slab.normal()
    valid = torch.randint(1, slab.columns + 1, slab.i.shape, generator=slab.generator, device=slab.x.device)
    slab.put(word, slab.j >= valid)


def _prefix(slab: Slab, valid: int) -> None:
    slab.normal()
    slab.put("-inf", slab.j >= valid)


def _segments(slab: Slab) -> None:
    """Normals; every second segment of at most 256 columns is -inf, in odd rows the first."""
    slab.normal()
    if slab.columns > 1:
        width = min(SEGMENT_COLUMNS, slab.columns // 2)
        slab.put("-inf", (slab.j // width % 2 == 1) ^ (slab.i % 2 == 1))


def _whole_row(slab: Slab, word: str) -> None:
    slab.normal()
    slab.put(word, slab.special)


def _one_element(slab: Slab, word: str, numerator: int) -> None:
    """Normals; in special rows the word's value after `numerator` halves of the row."""
    slab.normal()
    column = numerator * (slab.columns - 1) // 2
    slab.put(word, slab.special & (slab.j == column))


def _nan_with_inf(slab: Slab) -> None:
    slab.normal()
    slab.put("-inf", slab.special & (slab.j >= slab.columns // 4))
    slab.put("nan", slab.special & (slab.j == slab.columns // 2))


def _growing(slab: Slab) -> None:
    """Values that rise from -30 to 30 along the row, so that a running maximum moves all the time."""
    import torch

    slab.x.normal_(0, 0.01, generator=slab.generator)
    slab.x.add_(torch.linspace(-30, 30, slab.columns, device=slab.x.device).to(slab.x.dtype))


DISTRIBUTIONS: dict[str, Callable[[Slab], None]] = {
    "normal": Slab.normal,
    "uniform": partial(_uniform, low=-1, high=1),
    "uniform_0_10": partial(_uniform, low=0, high=10),
    "uniform_500_1000": partial(_uniform, low=500, high=1000),  # where exp overflows
    "peaked": _peaked,
    "equal": _equal,
    **{f"shifted_{word}": partial(_shifted, shift=float(word)) for word in ("1e2", "-1e2", "1e4", "-1e4", "1e5")},
    "dtype_max": _dtype_max,
    "causal_inf": partial(_causal, word="-inf"),
    "padding_inf": partial(_padding, word="-inf"),
    **{f"prefix_inf_{valid}": partial(_prefix, valid=valid) for valid in (1, 255, 256, 257)},
    "segments_inf": _segments,
    "causal_min": partial(_causal, word="min"),
    "padding_min": partial(_padding, word="min"),
    "all_min": partial(_whole_row, word="min"),
    "all_inf": partial(_whole_row, word="-inf"),
    "plus_inf": partial(_one_element, word="inf", numerator=1),
    "nan_first": partial(_one_element, word="nan", numerator=0),
    "nan_middle": partial(_one_element, word="nan", numerator=1),
    "nan_last": partial(_one_element, word="nan", numerator=2),
    "nan_with_inf": _nan_with_inf,
    "growing": _growing,
}
"""By the words of a case. `inf` and `min` in a word: -inf, and the dtype's smallest finite value."""
