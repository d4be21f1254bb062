"""Rows that are fewer than the GPU has multiprocessors: each is split over many programs, in two kernels."""

import triton
import triton.language as tl

from ._math import gather, overlap, power, result, result_base, result_scale, widen


@triton.jit
def statistics(
    work_ptr,
    x_ptr,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,
    SPAN: tl.constexpr,
    PARTS: tl.constexpr,
    PDL: tl.constexpr,
):
    """The maximum and the sum of each of PARTS parts of a row; work is (rows, 2, PARTS) float32, or float64.

    SPAN  chunks that are on their way at a time
    """
    if PDL:
        overlap()
    columns = vectors * VEC
    row = (tl.program_id(0) // PARTS).to(tl.int64)
    part = tl.program_id(0) % PARTS
    x_ptr += row * x_row * VEC
    last = tl.minimum((part + 1) * CHUNKS * BLOCK, columns)
    lane = part * CHUNKS * BLOCK + tl.arange(0, SPAN)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    maximum = tl.full([BLOCK], -float("inf"), work_ptr.dtype.element_ty)
    total = tl.zeros_like(maximum)
    for turn in range((CHUNKS + SPAN - 1) // SPAN):
        column = turn * SPAN * BLOCK + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = tl.load(at, mask=column < last, other=-float("inf"), eviction_policy="evict_last")
        maximum, total = gather(maximum, total, widen(x), True)
    top = tl.max(maximum, axis=0)
    # A part that is all -inf has no part in its row's sum; its lanes would differ from their maximum by NaN.
    difference = tl.where(maximum == top, 0.0, maximum - top)
    total = tl.sum(total * power(difference, True), axis=0)
    work_ptr += row * 2 * PARTS + part
    tl.store(work_ptr, top)
    tl.store(work_ptr + PARTS, total)


@triton.jit
def normalise(
    y_ptr,
    work_ptr,
    x_ptr,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,
    SPAN: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_BLOCK: tl.constexpr,
    PDL: tl.constexpr,
    LOG: tl.constexpr,
):
    """Every program merges all parts of its row, then writes its own part, the chunk that was read last first."""
    if PDL:
        overlap()
    columns = vectors * VEC
    row = (tl.program_id(0) // PARTS).to(tl.int64)
    part = tl.program_id(0) % PARTS
    x_ptr += row * x_row * VEC
    y_ptr += row * columns
    work_ptr += row * 2 * PARTS
    each = tl.arange(0, PARTS_BLOCK)
    tops = tl.load(work_ptr + each, mask=each < PARTS, other=-float("inf"))
    totals = tl.load(work_ptr + PARTS + each, mask=each < PARTS, other=0.0)
    top = tl.max(tops, axis=0)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(top, out, True, LOG)
    scale = result_scale(tl.sum(totals * power(tops - top, True), axis=0), top, base, True, LOG)
    last = tl.minimum((part + 1) * CHUNKS * BLOCK, columns)
    lane = part * CHUNKS * BLOCK + tl.arange(0, SPAN)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    turns: tl.constexpr = (CHUNKS + SPAN - 1) // SPAN
    for turn in range(turns):
        column = (turns - 1 - turn) * SPAN * BLOCK + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = tl.load(at, mask=column < last, other=-float("inf"), eviction_policy="evict_first")
        y = result(widen(x) - base, scale, out, True, LOG)
        tl.store(y_ptr + column, y, mask=column < last, cache_modifier=".cs")
