"""What an operator of a file reads and writes: shapes from the case's, dtypes, how inputs are drawn, and the roof that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softbench.cases.operators.inputs import allocate, distinct, fill, key_of
from softbench.cases.operators.outputs import OutputSpec
from softbench.cases.operators.recipes import Form
from softbench.cases.operators.vocabulary import Layout, of_others, parse_layout
from softbench.model import DTYPE_BYTES, DTYPES, Case
from softbench.resources import choose_from

if TYPE_CHECKING:
    from torch import Tensor

READ_SHAPES = ("case", "rows", "columns")
WRITTEN_SHAPES = ("case", "rows")
KEYS = ("shape", "dtype", "mean", "spread")
ROOFS = {(1, 1): "copy", (2, 1): "read2_write1", (2, 2): "read2_write2"}
"""Streams of the case's size that are read and written -> the set of roof kernels that moves as many."""


@dataclass(frozen=True)
class Stream:
    """One input or output.

    shape   "case"; "rows": one element per row; "columns": one per column, shared by all rows
    dtype   "" is the case's dtype for an input, its out_dtype for an output; for an output of one element per row float32, or
            float64 where the case is float64
    mean, spread  of the normal values that an input holds; the first input is drawn by the case's distribution instead
    """

    name: str
    shape: str = "case"
    dtype: str = ""
    mean: float = 0.0
    spread: float = 1.0

    def sizes(self, case: Case) -> tuple[int, ...]:
        """Its shape in a case."""
        return {"case": case.shape, "rows": (case.rows,), "columns": (case.columns,)}[self.shape]

    def read_bytes(self, case: Case) -> int:
        """Bytes that reading it once moves."""
        elements = {"case": distinct(case), "rows": case.rows, "columns": case.columns}[self.shape]
        return elements * DTYPE_BYTES[self.dtype or case.dtype]

    def written(self, case: Case) -> OutputSpec:
        """It as an output."""
        own = case.out_dtype if self.shape == "case" else "float64" if case.dtype == "float64" else "float32"
        return OutputSpec(self.sizes(case), self.dtype or own)

    def layout(self, case: Case) -> Layout:
        """It lies as the case says if it has the case's shape; other streams are contiguous."""
        return parse_layout(case.layout if self.shape == "case" else "contiguous")

    def made(self, case: Case, device: str) -> Tensor:
        """It as an input, not drawn yet. Raises ValueError for a layout that the shape cannot have."""
        return allocate(self.sizes(case), self.dtype or case.dtype, self.layout(case), device)

    def draw(self, case: Case, x: Tensor, seed: int, *, is_first: bool) -> None:
        """Draw into an input, in place."""
        if is_first:
            fill(x, case.distribution, self.layout(case), key_of(case, seed), Form.VALUES)
            return
        layout = self.layout(case)
        fill(x, of_others(case.distribution), layout, key_of(case, seed, self.name))
        if (self.mean, self.spread) != (0.0, 1.0) and x.numel():
            own = x[(0,) * (x.dim() - 1)] if layout.broadcast and x.dim() > 1 else x  # all rows are the same memory
            own.mul_(self.spread).add_(self.mean)


def of(name: str, value: Any, *, is_written: bool) -> Stream:
    """The stream that a declaration describes: its shape, or a dict with some of `KEYS`. Raises ValueError of one line."""
    shapes = WRITTEN_SHAPES if is_written else READ_SHAPES
    keys = KEYS[:2] if is_written else KEYS
    given = {"shape": value} if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise ValueError(f"stream {name!r} is described by its shape, or by a dict; the shapes are {', '.join(shapes)}")
    for key in given:
        if key not in keys:
            raise ValueError(f"stream {name!r}: unknown key {key!r}; {choose_from(str(key), keys)}")
    stream = Stream(name, **given)
    if stream.shape not in shapes:
        raise ValueError(f"stream {name!r}: {stream.shape!r} is no shape; {choose_from(str(stream.shape), shapes)}")
    if stream.dtype and stream.dtype not in DTYPES:
        raise ValueError(f"stream {name!r}: {stream.dtype!r} is no dtype; {choose_from(str(stream.dtype), DTYPES)}")
    if stream.dtype and stream.shape == "case":
        raise ValueError(f"stream {name!r} is as large as the case, and has its dtype; take {stream.dtype!r} out")
    if not all(type(number) in (int, float) for number in (stream.mean, stream.spread)) or stream.spread <= 0:
        raise ValueError(f"stream {name!r}: mean and spread are numbers, and the spread is above 0")
    return stream


def roof(reads: Sequence[Stream], writes: Sequence[Stream]) -> str:
    """The set of roof kernels that moves as many streams of the case's size. Raises ValueError where there is none."""
    moved = sum(s.shape == "case" for s in reads), sum(s.shape == "case" for s in writes)
    if moved not in ROOFS:
        known = ", ".join(f"{read} and {written}" for read, written in ROOFS)
        text = f"it reads {moved[0]} and writes {moved[1]} streams of the case's size, and no roof does"
        raise ValueError(f"{text}; there are roofs that read and write {known}")
    return ROOFS[moved]
