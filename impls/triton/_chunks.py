"""Rows of any length, a row a program, in chunks: an online pass, then a second one."""

import triton
import triton.language as tl

from ._math import meet, overlap, power, result, result_base, result_scale, widen


@triton.jit
def chunks(
    y_ptr,
    x_ptr,
    rows,
    vectors,
    x_row,
    x_column,
    VEC: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,
    STAGES: tl.constexpr,
    UNROLL: tl.constexpr,
    EXP2: tl.constexpr,
    HINTS: tl.constexpr,
    PDL: tl.constexpr,
    LOG: tl.constexpr,
):
    """CHUNKS chunks of BLOCK lanes, each with a (maximum, sum) of its own, so that the loop needs no exchange.

    STAGES   chunks on their way through shared memory at a time, by asynchronous copies; 1 loads into registers
    UNROLL   chunks a turn of the loop
    HINTS    evict what the first pass reads last and what the second reads first; let stores stream. The second pass
             then begins with the chunk that was read last, which the caches still hold
    """
    if PDL:
        overlap()
    columns = vectors * VEC
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row * VEC
    y_ptr += row * columns
    lane = tl.arange(0, BLOCK)
    first: tl.constexpr = "evict_last" if HINTS else ""
    second: tl.constexpr = "evict_first" if HINTS else ""
    stores: tl.constexpr = ".cs" if HINTS else ""
    maximum = tl.full([BLOCK], -float("inf"), tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32)
    total = tl.zeros_like(maximum)
    for chunk in tl.range(0, CHUNKS, num_stages=STAGES, loop_unroll_factor=UNROLL):
        column = chunk * BLOCK + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = tl.load(at, mask=column < columns, other=-float("inf"), eviction_policy=first)
        maximum, total = meet(maximum, total, widen(x), EXP2)
    top = tl.max(maximum, axis=0)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(top, out, EXP2, LOG)
    scale = result_scale(tl.sum(total * power(maximum - top, EXP2), axis=0), top, base, EXP2, LOG)
    for chunk in tl.range(0, CHUNKS, num_stages=STAGES, loop_unroll_factor=UNROLL):
        column = (CHUNKS - 1 - chunk if HINTS else chunk) * BLOCK + lane
        at = x_ptr + column.to(tl.int64) * x_column
        x = tl.load(at, mask=column < columns, other=-float("inf"), eviction_policy=second)
        y = result(widen(x) - base, scale, out, EXP2, LOG)
        tl.store(y_ptr + column, y, mask=column < columns, cache_modifier=stores)
