"""The k largest of short rows and their softmax: each lane of a warp sorts its part of a row, then the largest head of 32 is taken.

Values are compared as integers in their order: a warp finds the largest in one instruction. In float32 the 13 lowest bits of
16-bit values are 0, and hold the place; equal values then need no second search, and places no registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._math import power, widen

LOWEST: tl.constexpr = tl.constexpr(-(2**31))
"""Below every key of a number."""
LOW: tl.constexpr = tl.constexpr(2**13 - 1)


@triton.jit
def topk(
    weight_ptr, expert_ptr, x_ptr, columns, rows,
    K: tl.constexpr, RENORMALISED: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """ROWS dense rows a program, a row per warp where it has 32 lanes; each lane has 2^STAGES of its columns. K <= LANES."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, LANES)[None, :]
    narrow: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth == 16
    keys, places = (), ()
    for piece in tl.static_range(1 << STAGES):
        place = piece * LANES + lane + row.to(tl.int32) * 0
        inside = (row < rows) & (place < columns)
        x = widen(tl.load(x_ptr + row * columns + place, mask=inside, other=-float("inf")))
        key = flipped(x.to(tl.int32, bitcast=True))
        if narrow:
            key = (key & ~LOW) | (LOW - place)
        keys = keys + (tl.where(place < columns, key, LOWEST),)  # noqa: RUF005
        places = places + (place,)  # noqa: RUF005 -- Triton knows no starred tuple
    highest = keys[0]
    for piece in tl.static_range(1, 1 << STAGES):
        highest = tl.maximum(highest, keys[piece])
    top = value_of(tl.max(highest, axis=1, keep_dims=True), narrow)
    total = tl.zeros([ROWS, LANES], tl.float32)
    if not RENORMALISED:
        for piece in tl.static_range(1 << STAGES):
            total += tl.where(places[piece] < columns, power(value_of(keys[piece], narrow) - top, False), 0.0)
    for stage in tl.static_range(STAGES):
        for turn in tl.static_range(stage + 1):
            keys, places = exchanged(keys, places, 1 << (stage - turn), 2 << stage, 1 << STAGES)
    kept = tl.full([ROWS, LANES], LOWEST, tl.int32)
    expert = tl.zeros([ROWS, LANES], tl.int32)
    for number in tl.static_range(K):
        best = tl.max(keys[0], axis=1, keep_dims=True)
        if narrow:
            at, wins = LOW - (best & LOW), keys[0] == best
        else:
            at = tl.min(tl.where(keys[0] == best, places[0], 2**30), axis=1, keep_dims=True)
            wins = places[0] == at
        kept, expert = tl.where(lane == number, best, kept), tl.where(lane == number, at, expert)
        keys, places = behind(keys, wins, LOWEST, 1 << STAGES), behind(places, wins, 0, 1 << STAGES)
    share = tl.where(lane < K, power(value_of(kept, narrow) - top, False), 0.0)
    if RENORMALISED:
        total = share
    written = (row < rows) & (lane < K)
    tl.store(weight_ptr + row * K + lane, share / tl.sum(total, axis=1, keep_dims=True), mask=written)
    tl.store(expert_ptr + row * K + lane, expert, mask=written)


@triton.jit
def flipped(bits):
    """Bits of floats as integers in their order, and back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def value_of(key, NARROW: tl.constexpr):
    return (flipped(key) & (~LOW if NARROW else -1)).to(tl.float32, bitcast=True)


@triton.jit
def exchanged(keys, places, STEP: tl.constexpr, SPAN: tl.constexpr, COUNT: tl.constexpr):
    """One step of Batcher's bitonic sort of every lane's keys, the largest first."""
    new_keys, new_places = (), ()
    for i in tl.static_range(COUNT):
        if ((i & STEP) == 0) == ((i & SPAN) == 0):  # noqa: SIM108 -- Triton's tuples take no computed place
            swaps = keys[i ^ STEP] > keys[i]
        else:
            swaps = keys[i] > keys[i ^ STEP]
        new_keys = new_keys + (tl.where(swaps, keys[i ^ STEP], keys[i]),)  # noqa: RUF005
        new_places = new_places + (tl.where(swaps, places[i ^ STEP], places[i]),)  # noqa: RUF005
    return new_keys, new_places


@triton.jit
def behind(held, wins, last, COUNT: tl.constexpr):
    """Every lane's values, without the first one in the lane that wins."""
    rest = ()
    for i in tl.static_range(COUNT - 1):
        rest = rest + (tl.where(wins, held[i + 1], held[i]),)  # noqa: RUF005
    return rest + (tl.where(wins, last, held[COUNT - 1]),)  # noqa: RUF005
