"""Long rows of 16 bits in registers: read once, held as they came, two values a register."""

import triton
import triton.language as tl

from ._math import opaque, overlap, power, result, result_base, result_scale, widen


@triton.jit
def pieces(
    y_ptr,
    x_ptr,
    rows,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,
    EXP2: tl.constexpr,
    POLICY: tl.constexpr,
    PACKED: tl.constexpr,
    PDL: tl.constexpr,
    LOG: tl.constexpr,
):
    """A row a program as CHUNKS tensors of BLOCK lanes. y is contiguous.

    All of the row is asked for at once, and worked on piece by piece, so that few float32 values live at a time. Between
    its three uses PACKED makes the row another to the compiler, by a bit that is 0 but known only after the reduction.
    """
    if PDL:
        overlap()
    columns = vectors * VEC
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row * VEC
    y_ptr += row * columns
    lane = tl.arange(0, BLOCK)
    held = ()
    for piece in tl.static_range(CHUNKS):
        column = piece * BLOCK + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = tl.load(at, mask=column < columns, other=-float("inf"), eviction_policy=POLICY)
        held = held + (x,)  # noqa: RUF005 -- Triton knows no starred tuple
    highest = widen(held[0])
    for piece in tl.static_range(1, CHUNKS):
        highest = tl.maximum(highest, widen(held[piece]))
    maximum = tl.max(highest, axis=0)
    zero = maximum != maximum  # true for nothing but a row of NaN, which stays one with another bit set
    sums = tl.zeros_like(highest)
    for piece in tl.static_range(CHUNKS):
        sums += power(widen(opaque(held[piece], zero, PACKED)) - maximum, EXP2)
    total = tl.sum(sums, axis=0)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(maximum, out, EXP2, LOG)
    scale = result_scale(total, maximum, base, EXP2, LOG)
    zero = total < -1.0
    for piece in tl.static_range(CHUNKS):
        column = piece * BLOCK + lane
        y = result(widen(opaque(held[piece], zero, PACKED)) - base, scale, out, EXP2, LOG)
        tl.store(y_ptr + column, y, mask=column < columns)
