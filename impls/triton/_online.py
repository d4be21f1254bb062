"""The kernels of `triton_online`: rows that fit one tile, and rows of any length.

Both take strides in units of VEC elements. A stride or a length that is written as a multiple of VEC is known to be
one to the compiler, which then keeps 16-byte loads for rows such as 1000 columns of float16.
A row that is all -inf or holds +inf or NaN comes out all NaN without a branch: (x - maximum) or the sum is NaN there.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def widen(x):
    """float64 stays, everything narrower is computed in float32."""
    if x.dtype == tl.float64:
        return x
    else:
        return x.to(tl.float32)


@triton.jit
def exponential(difference):
    """exp(x - maximum) for a difference already taken: x*log2e - maximum*log2e would lose 3e-4 at an offset of 1e4."""
    if difference.dtype == tl.float64:
        return tl.exp(difference)
    else:
        return tl.exp2(difference * 1.4426950408889634)


@triton.jit
def softmax_tile(
    y_ptr,
    x_ptr,
    rows,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    REREAD: tl.constexpr,
):
    """ROWS rows a program, each within BLOCK columns. y is contiguous.

    With REREAD the tile is read again after the sum, from L1: every store then follows its load closely, as in a
    copy, which measured 0.5-4 % faster on an H200 than keeping the tile in registers.
    """
    columns = vectors * VEC
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    at = x_ptr + row * x_row * VEC + column.to(tl.int64) * x_column
    first: tl.constexpr = "evict_last" if REREAD else ""
    x = widen(tl.load(at, mask=inside, other=-float("inf"), eviction_policy=first))
    maximum = tl.max(x, axis=1, keep_dims=True)
    power = exponential(x - maximum)
    scale = 1.0 / tl.sum(power, axis=1, keep_dims=True)
    if REREAD:
        x = widen(tl.load(at, mask=inside, other=-float("inf"), eviction_policy="evict_first"))
        power = exponential(x - maximum)
    y = (power * scale).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * columns + column, y, mask=inside, cache_modifier=".cs")


@triton.jit
def softmax_long(
    y_ptr,
    x_ptr,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row of any length a program: an online pass, then a second one backwards. y is contiguous.

    Each of the BLOCK lanes keeps its own (maximum, sum), so that the loop needs no exchange between threads, and one
    exponential an element: either the element or the lane's sum is scaled, never both. The second pass starts with
    the chunk that was read last, which the caches still hold. The loops are `while` because Triton 3.6's
    interpreter cannot take the bound of a range from an argument (with numpy 2.4).
    """
    columns = vectors * VEC
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row * VEC
    y_ptr += row * columns
    lane = tl.arange(0, BLOCK)
    maximum = tl.full([BLOCK], -float("inf"), tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32)
    total = tl.zeros_like(maximum)
    start = 0
    while start < columns:
        column = start + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = widen(tl.load(at, mask=column < columns, other=-float("inf"), eviction_policy="evict_last"))
        # Equal values, -inf and -inf among them, differ by nothing; -inf minus -inf would be NaN. What a lane sums
        # before its first finite value is multiplied by exp(-inf) = 0 later.
        difference = tl.where(x == maximum, 0.0, x - maximum)
        smaller = exponential(-tl.abs(difference))
        total = tl.where(x > maximum, total * smaller + 1.0, total + smaller)
        maximum = tl.maximum(maximum, x)
        start += BLOCK
    top = tl.max(maximum, axis=0)
    scale = 1.0 / tl.sum(total * exponential(maximum - top), axis=0)
    while start > 0:
        start -= BLOCK
        column = start + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = widen(tl.load(at, mask=column < columns, other=-float("inf"), eviction_policy="evict_first"))
        y = (exponential(x - top) * scale).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + column, y, mask=column < columns, cache_modifier=".cs")
