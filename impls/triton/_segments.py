"""Softmax of each segment of a row: whole vectors, HELD chunks of them in registers, and the elements beside them one per lane.

Only those next to a segment's ends need masks of their own; vectors are inside or not. A chunk is LANES vectors of V elements.
"""

# ruff: noqa: RUF005 -- Triton knows no starred tuple

import triton
import triton.language as tl

from ._math import opaque, overlap, power, result_base, result_power, widen
from ._rows import join

PART: tl.constexpr = tl.constexpr(4)
"""Chunks of what a program does not hold that are read at a time."""


@triton.jit
def segments(
    y_ptr, x_ptr, ends_ptr, columns, SEGMENTS: tl.constexpr, HELD: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr,
    AHEAD: tl.constexpr, PACKED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A segment per program, all of HELD chunks requested at once; what they cannot hold of a long one is read twice.

    AHEAD   programs whose share, if all segments are alike, is asked for into the L2, before it is known where segments end
    PACKED  16-bit values stay packed between their two uses
    """
    if PDL:
        overlap()
    program = tl.program_id(0).to(tl.int64)
    row = program // SEGMENTS * columns
    if AHEAD > 0:
        share = columns // SEGMENTS
        part = tl.arange(0, LANES) * (1024 // x_ptr.dtype.element_ty.primitive_bitwidth)
        if program < AHEAD:
            ask(x_ptr + program * share + part, part < share)
        ahead = (program + AHEAD) * share + part
        ask(x_ptr + ahead, (part < share) & (ahead < tl.num_programs(0).to(tl.int64) // SEGMENTS * columns))
    head = row + tl.load(ends_ptr + program - 1, mask=program % SEGMENTS > 0, other=0)
    tail = tl.maximum(head, row + tl.load(ends_ptr + program))
    start = (head + (V - 1)) // V * V
    count = tl.maximum(tail // V - start // V, 0).to(tl.int32)
    each = tl.arange(0, LANES)[:, None]
    side = tl.where(each < V, each - V, (count - 1) * V + each)
    seen = (side >= (head - start).to(tl.int32)) & (side < (tail - start).to(tl.int32)) & (each < 2 * V)
    edge = tl.load(x_ptr + start + side, mask=seen & (V > 1), other=-float("inf"))
    held = chunks(x_ptr + start, 0, count, HELD, LANES, V)
    finish(y_ptr + start, x_ptr + start, count, side, seen, edge, held, HELD, LANES, V, PACKED)


@triton.jit
def finish(
    y_ptr, x_ptr, count, side, seen, edge, held,
    HELD: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Write a segment of `count` vectors, `held` of them, and what is `seen` of `side`, which is `edge`."""
    out: tl.constexpr = y_ptr.dtype.element_ty
    tops, totals = tl.max(widen(edge), axis=1), tl.zeros([LANES], tl.float32)
    for i in tl.static_range(HELD):
        if i * LANES < count:
            tops = tl.maximum(tops, tl.max(widen(held[i]), axis=1))
    if count > HELD * LANES:
        tops = tl.broadcast_to(tl.max(tops, axis=0), [LANES])
        for lane in range(HELD * LANES, count, PART * LANES):
            many = chunks(x_ptr, lane, count, PART, LANES, V)
            for i in tl.static_range(PART):
                tops, totals = join(tops, totals, widen(many[i]))
    top = tl.max(tops, axis=0)
    base = result_base(tl.where(top == -float("inf"), 0.0, top), out, True, False)
    totals *= power(tops - base, True)
    beside = result_power(widen(edge) - base, out, True)
    totals += tl.sum(beside, axis=1)
    powers, zero = (), top != top
    for i in tl.static_range(HELD):
        found = tl.zeros([LANES, V], tl.float32)
        if i * LANES < count:
            found = result_power(widen(opaque(held[i], zero, PACKED)) - base, out, True)
            totals += tl.sum(found, axis=1)
        powers = powers + (found,)
    scale = 1.0 / tl.sum(totals, axis=0)
    for i in tl.static_range(HELD):
        if i * LANES < count:
            put(y_ptr, powers[i] * scale, i * LANES, count, LANES, V)
    if V > 1:
        tl.store(y_ptr + side, (beside * scale).to(out), mask=seen)
    for lane in range(HELD * LANES, count, PART * LANES):
        many = chunks(x_ptr, lane, count, PART, LANES, V)
        for i in tl.static_range(PART):
            put(y_ptr, result_power(widen(many[i]) - base, out, True) * scale, lane + i * LANES, count, LANES, V)


@triton.jit
def chunks(x_ptr, lane, count, NUMBER: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr):
    """NUMBER chunks from vector `lane` on, -inf from `count` on."""
    found = ()
    for i in tl.static_range(NUMBER):
        column, mask = place(lane + i * LANES, count, LANES, V)
        found = found + (tl.load(x_ptr + column, mask=mask, other=-float("inf"), eviction_policy="evict_first"),)
    return found


@triton.jit
def put(y_ptr, y, lane, count, LANES: tl.constexpr, V: tl.constexpr):
    column, mask = place(lane, count, LANES, V)
    tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def place(lane, count, LANES: tl.constexpr, V: tl.constexpr):
    """The columns of a chunk, and which are before vector `count`."""
    lane += tl.arange(0, LANES)[:, None]
    column = lane * V + tl.arange(0, V)[None, :]
    return column, tl.broadcast_to(lane < count, column.shape)


@triton.jit
def ask(x_ptr, wanted):
    """Into the L2."""
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.ne.b32 p, $2, 0; @p prefetch.global.L2 [$1]; mov.b32 $0, 0; }", "=r,l,r",
        [x_ptr.to(tl.int64), wanted.to(tl.int32)], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
