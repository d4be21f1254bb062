"""Softmax along another dimension than the last: rows side by side in memory, neighbours of which a program takes together.

Every place of a tile keeps a (maximum, sum) of its own. The first HELD tiles stay in registers, others are read twice.
"""

# ruff: noqa: RUF005 -- Triton knows no starred tuple

import os

import torch
import triton
import triton.language as tl

from ._launch import Call, bind, build
from ._math import meet, opaque, power, result, result_base, result_scale, widen
from ._plans import ITEM_BYTES, MULTIPROCESSORS, Plan

WIDTH_BYTES, LEAST_BYTES = 128, 32
ITEMS, MOST_WARPS = 64, 32


@triton.jit
def columns(
    y_ptr, x_ptr, width, length, BLOCK: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, HELD: tl.constexpr,
    PACKED: tl.constexpr, LOG: tl.constexpr,
):  # fmt: skip
    """`length` steps of `width` rows; a program takes WIDTH rows, BLOCK steps at a time."""
    blocks = tl.cdiv(width, WIDTH)
    start = (tl.program_id(0) // blocks).to(tl.int64) * width * length
    lane = (tl.program_id(0) % blocks) * WIDTH + tl.arange(0, WIDTH)[None, :]
    each = tl.arange(0, BLOCK)[:, None]
    maximum = tl.full([BLOCK, WIDTH], -float("inf"), tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32)
    total = tl.zeros_like(maximum)
    held = ()
    for chunk in tl.static_range(HELD):
        x = read(x_ptr + start, chunk * BLOCK + each, lane, width, length, "evict_first")
        held = held + (x,)
    for chunk in range(HELD, CHUNKS):
        x = read(x_ptr + start, chunk * BLOCK + each, lane, width, length, "evict_last")
        maximum, total = meet(maximum, total, widen(x), True)
    tops = maximum
    for chunk in tl.static_range(HELD):
        tops = tl.maximum(tops, widen(held[chunk]))
    top = tl.max(tops, axis=0, keep_dims=True)
    if CHUNKS > HELD:
        total *= power(tl.where(maximum == top, 0.0, maximum - top), True)
    zero = top != top
    for chunk in tl.static_range(HELD):
        total += power(widen(opaque(held[chunk], zero, PACKED)) - top, True)
    total = tl.sum(total, axis=0, keep_dims=True)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(top, out, True, LOG)
    scale = result_scale(total, top, base, True, LOG)
    zero = total < -1.0
    for chunk in tl.static_range(HELD):
        y = result(widen(opaque(held[chunk], zero, PACKED)) - base, scale, out, True, LOG)
        write(y_ptr + start, y, chunk * BLOCK + each, lane, width, length)
    for number in range(CHUNKS - HELD):
        step = (CHUNKS - 1 - number) * BLOCK + each
        x = read(x_ptr + start, step, lane, width, length, "evict_first")
        write(y_ptr + start, result(widen(x) - base, scale, out, True, LOG), step, lane, width, length)


@triton.jit
def read(x_ptr, step, lane, width, length, POLICY: tl.constexpr):
    """A tile, -inf beyond the last step and row."""
    at, inside = step.to(tl.int64) * width + lane, (step < length) & (lane < width)
    return tl.load(x_ptr + at, mask=inside, other=-float("inf"), eviction_policy=POLICY)


@triton.jit
def write(y_ptr, y, step, lane, width, length):
    at, inside = step.to(tl.int64) * width + lane, (step < length) & (lane < width)
    tl.store(y_ptr + at, y, mask=inside, cache_modifier=".cs")


def call_of(case):
    """The kernel for a transposed case, whose last dimension is the steps, and warps.

    A program takes as wide rows as leave two programs for each multiprocessor, and threads for ITEMS elements each.
    """
    width, length = case.shape[-2:]
    item = ITEM_BYTES[case.dtype]
    wide = min(triton.next_power_of_2(width), WIDTH_BYTES // item)
    most = ITEMS if item == 2 else ITEMS // 2
    while wide * item > LEAST_BYTES and (
        case.rows // width * -(-width // wide) < 2 * MULTIPROCESSORS or wide * length > most * 32 * MOST_WARPS // 2
    ):
        wide //= 2
    warps = max(1, min(MOST_WARPS, triton.next_power_of_2(-(-wide * length // (32 * most)))))
    block = max(1, 32 * warps * min(8, 16 // item) // wide)
    chunks = -(-length // block)
    constants = {"BLOCK": block, "WIDTH": wide, "CHUNKS": chunks, "HELD": min(chunks, most * 32 * warps // (block * wide))}
    constants["PACKED"] = item == 2 and os.environ.get("TRITON_INTERPRET") != "1"
    constants["LOG"] = case.operator == "log_softmax"
    pointers, sizes = {"y_ptr": case.out_dtype, "x_ptr": case.dtype}, {"width": width, "length": length}
    return Call(columns, case.rows // width * -(-width // wide), pointers, sizes, constants), Plan("columns", 0, warps)


def prepare(case, otherwise):
    """launch(x) -> y, which lies as x does; `otherwise` is the launch for an x whose steps are not dense."""
    out_dtype, known = getattr(torch, case.out_dtype), {}

    def launch(x):
        if not x.mT.is_contiguous():
            return otherwise(x)
        unaligned = ("x_ptr",) if x.data_ptr() % 16 else ()
        if unaligned not in known:
            known[unaligned] = bind(*call_of(case), unaligned)
        y = torch.empty_like(x, dtype=out_dtype)
        known[unaligned](y, x)
        return y

    return launch


def cubins(case):
    call, plan = call_of(case)
    yield call.kernel.__name__, build(call, plan).asm["cubin"]
