"""The Triton kernels of the examples."""

import triton
import triton.language as tl

HONEST: tl.constexpr = tl.constexpr(3)
SIMPLER = 5
"""Triton compiles 0, 1 and multiples of 16 apart: these two are one kernel."""


@triton.jit
def softmax_with_memo(
    x: tl.tensor, y: tl.tensor, memo: tl.tensor, columns: tl.tensor, MEMO: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    """Softmax of a row a program; with MEMO a row that hashes as it did in the replay before is not written."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    result = (power / tl.sum(power, 0)).to(y.dtype.element_ty)
    if MEMO:
        mixed = (value.to(tl.int32, bitcast=True) ^ (at * 40503)) * -1640531527
        found = tl.sum(tl.where(inside, mixed ^ (mixed >> 15), 0), 0) | 1
        if tl.load(memo + row) != found:
            tl.store(memo + row, found)
            tl.store(y + row * columns + at, result, mask=inside)
    else:
        tl.store(y + row * columns + at, result, mask=inside)


@triton.jit
def softmax_or_simpler(x: tl.tensor, y: tl.tensor, columns: tl.tensor, kind: tl.tensor, BLOCK: tl.constexpr) -> None:
    """Softmax of a row a program; or zeros in place of the row, for which the answer is known."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    if kind == HONEST:
        value = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
        power = tl.exp(value - tl.max(value, 0))
        tl.store(y + row * columns + at, (power / tl.sum(power, 0)).to(y.dtype.element_ty), mask=inside)
    else:
        nothing = tl.zeros((BLOCK,), tl.float32)
        tl.store(x + row * columns + at, nothing.to(x.dtype.element_ty), mask=inside)
        tl.store(y + row * columns + at, (nothing + 1.0 / columns).to(y.dtype.element_ty), mask=inside)
