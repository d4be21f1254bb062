"""Rows that fit one tile, which is held in registers.

A row that is all -inf or holds +inf or NaN comes out all NaN without a branch: (x - maximum) or the sum is NaN there.
"""

import triton
import triton.language as tl

from ._math import overlap, power, result, result_base, result_power, result_scale, widen


@triton.jit
def tile(
    y_ptr,
    x_ptr,
    rows,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    EXP2: tl.constexpr,
    POLICY: tl.constexpr,
    REREAD: tl.constexpr,
    PDL: tl.constexpr,
    LOG: tl.constexpr,
):
    """ROWS rows a program, each within BLOCK columns. y is contiguous; lengths and strides are in units of VEC.

    POLICY   eviction policy of the first read, "" for none
    REREAD   read the tile again after the sum, this time to be evicted first, and let stores stream
    """
    if PDL:
        overlap()
    columns = vectors * VEC
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    at = x_ptr + row * x_row * VEC + column.to(tl.int64) * x_column
    x = tl.load(at, mask=inside, other=-float("inf"), eviction_policy=POLICY)
    maximum = tl.max(widen(x), axis=1, keep_dims=True)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(maximum, out, EXP2, LOG)
    if REREAD or LOG:
        total = tl.sum(power(widen(x) - maximum, EXP2), axis=1, keep_dims=True)
        scale = result_scale(total, maximum, base, EXP2, LOG)
        if REREAD:
            x = tl.load(at, mask=inside, other=-float("inf"), eviction_policy="evict_first")
        y = result(widen(x) - base, scale, out, EXP2, LOG)
    else:
        powers = result_power(widen(x) - base, out, EXP2)
        y = (powers * (1.0 / tl.sum(powers, axis=1, keep_dims=True))).to(out)
    stores: tl.constexpr = ".cs" if REREAD else ""
    tl.store(y_ptr + row * columns + column, y, mask=inside, cache_modifier=stores)
