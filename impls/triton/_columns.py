"""Softmax along another dimension than the last: rows side by side in memory, neighbours of which a program takes together.

A program reads steps of all its rows, twice, the second time from the end. Every place of a tile keeps a (maximum, sum) of its own.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ._launch import Call, bind, build
from ._math import meet, power, result, result_base, result_scale, widen
from ._plans import ITEM_BYTES, Plan

WIDTH_BYTES, TILE, WARPS = 128, 4096, 8


@triton.jit
def columns(
    y_ptr, x_ptr, width, length,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, LOG: tl.constexpr,
):  # fmt: skip
    """`length` steps of `width` rows; a program takes WIDTH rows, BLOCK steps at a time."""
    blocks = tl.cdiv(width, WIDTH)
    start = (tl.program_id(0) // blocks).to(tl.int64) * width * length
    lane = (tl.program_id(0) % blocks) * WIDTH + tl.arange(0, WIDTH)[None, :]
    each = tl.arange(0, BLOCK)[:, None]
    maximum = tl.full([BLOCK, WIDTH], -float("inf"), tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32)
    total = tl.zeros_like(maximum)
    for chunk in range(CHUNKS):
        step = chunk * BLOCK + each
        at, inside = start + step.to(tl.int64) * width + lane, (step < length) & (lane < width)
        x = tl.load(x_ptr + at, mask=inside, other=-float("inf"), eviction_policy="evict_last")
        maximum, total = meet(maximum, total, widen(x), True)
    top = tl.max(maximum, axis=0, keep_dims=True)
    total = tl.sum(total * power(tl.where(maximum == top, 0.0, maximum - top), True), axis=0, keep_dims=True)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(top, out, True, LOG)
    scale = result_scale(total, top, base, True, LOG)
    for number in range(CHUNKS):
        step = (CHUNKS - 1 - number) * BLOCK + each
        at, inside = start + step.to(tl.int64) * width + lane, (step < length) & (lane < width)
        x = tl.load(x_ptr + at, mask=inside, other=-float("inf"), eviction_policy="evict_first")
        tl.store(y_ptr + at, result(widen(x) - base, scale, out, True, LOG), mask=inside, cache_modifier=".cs")


def call_of(case):
    """The kernel for a transposed case: its last dimension is the steps."""
    width, length = case.shape[-2:]
    wide = min(triton.next_power_of_2(width), WIDTH_BYTES // ITEM_BYTES[case.dtype])
    block = min(triton.next_power_of_2(length), TILE // wide)
    constants = {"BLOCK": block, "WIDTH": wide, "CHUNKS": -(-length // block), "LOG": case.operator == "log_softmax"}
    pointers, sizes = {"y_ptr": case.out_dtype, "x_ptr": case.dtype}, {"width": width, "length": length}
    return Call(columns, case.rows // width * -(-width // wide), pointers, sizes, constants)


def prepare(case, otherwise):
    """launch(x) -> y, which lies as x does; `otherwise` is the launch for an x whose steps are not dense."""
    out_dtype, known = getattr(torch, case.out_dtype), {}

    def launch(x):
        if not x.mT.is_contiguous():
            return otherwise(x)
        unaligned = ("x_ptr",) if x.data_ptr() % 16 else ()
        if unaligned not in known:
            known[unaligned] = bind(call_of(case), Plan("columns", 0, WARPS), unaligned)
        y = torch.empty_like(x, dtype=out_dtype)
        known[unaligned](y, x)
        return y

    return launch


def cubins(case):
    call = call_of(case)
    yield call.kernel.__name__, build(call, Plan("columns", 0, WARPS)).asm["cubin"]
