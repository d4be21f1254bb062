"""Names the kind of mistake that a wrong output looks like. Nothing is judged here: the output is known to be wrong."""

import math

from softbench.cases.operators import Expected, Invariant
from softbench.model import Case, Tensor

LOW_PRECISION = "low precision"
SMALL = 2.0**-4
"""Relative errors up to here may come from rounding to 16 bits: a bfloat16 input is off by 2**-9 of itself, and its exp by |x|
times that."""
WHOLE = 0.95
"""The share of wrong elements from which a whole stretch counts as wrong; stale memory may be right by chance."""


def of_value(output: Tensor, value: float, right: float) -> str:
    """The kind by the first wrong element, and by whether the whole output is one value."""
    if math.isnan(value):
        return "NaN where a number is expected"
    if math.isnan(right):
        return "a number where NaN is expected"
    if int(output.count_nonzero()) == 0:
        return "every element is 0"
    if output.numel() > 1 and bool((output == output[(0,) * output.dim()]).all()):
        same = math.isclose(value * output.shape[-1], 1, rel_tol=0.01)
        return "every element is 1/N" if same else f"every element is {value:.6g}"
    return ""


def of_block(expected: Expected, got: Tensor, bad: Tensor) -> str:
    """The kind by the wrong elements (bool) of a block of whole rows."""
    if _is_low_precision(expected, got, bad):
        return LOW_PRECISION
    start = int(bad.any(0).nonzero()[0])
    share = float(bad[bad.any(1), start:].double().mean())
    column = expected.first_column + start
    return f"wrong from column {column} on" if column > 0 and share >= WHOLE else ""


def of_tail(case: Case, output: Tensor, row: int, count: int) -> str:
    """The kind by the first row with a wrong element, and the total number of wrong elements."""
    columns = output.numel() // case.rows
    return f"wrong from row {row} on" if row and count >= WHOLE * (case.rows - row) * columns else ""


def of_rows(figures: Invariant) -> str:
    """The kind by the rows whose figure is off: rounding scatters to both sides, an omission or a scale to one."""
    off = (figures.got - figures.middle)[figures.violated]
    small = bool((off.abs() <= SMALL * figures.middle[figures.violated].abs()).all())
    return LOW_PRECISION if small and bool((off > 0).any()) and bool((off < 0).any()) else ""


def _is_low_precision(expected: Expected, got: Tensor, bad: Tensor) -> bool:
    """Whether many elements of the wrong rows are off, all by little, and not all to one side."""
    rows = bad.any(1)
    right, error, wrong = expected.values[rows], (got - expected.values)[rows], bad[rows]
    judged = right.isfinite() & (right != 0)
    if not bool((error.abs() <= expected.allowed[rows] + SMALL * right.abs())[judged].all()):
        return False
    relative = (error / right)[judged]
    scattered = relative.mean().abs() <= 0.5 * relative.square().mean().sqrt()
    return bool(scattered) and float(wrong[judged].double().mean()) >= 0.1
