"""The k largest of short rows and their softmax: a few lanes per row sort their parts, then the largest head is taken k times.

Values are compared as integers in their order, whose lowest bits name the column: one integer moves where there were two, and no
two are equal. Of 32-bit values those bits are lost. Where they could decide the order of the chosen, these are ranked again; where
they could decide who is chosen, a row is done again, value by value.
"""

# ruff: noqa: RUF005, SIM108 -- Triton knows no starred tuple

from __future__ import annotations

import triton
import triton.language as tl

from ._math import power, widen

LOWEST: tl.constexpr = tl.constexpr(-(2**31))
"""Below every key of a number."""
WIDE: tl.constexpr = tl.constexpr(32)
"""Columns that are read at a time where rows are done again."""


@triton.jit
def topk(
    weight_ptr, expert_ptr, x_ptr, rows, VECTORS: tl.constexpr, K: tl.constexpr, RENORMALISED: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr, PIECES: tl.constexpr, V: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """ROWS dense rows a program, LANES lanes a row, PIECES vectors of V columns a lane, of which it sorts the DEPTH largest."""
    first = tl.program_id(0).to(tl.int64) * ROWS
    row, lane = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    low: tl.constexpr = LANES * PIECES * V - 1
    inside, columns = first + row < rows, VECTORS * V
    x_ptr += first * columns
    weight_ptr += first * K
    expert_ptr += first * K
    values = ()
    for piece in tl.static_range(PIECES):
        vector = piece * LANES + lane
        at = ((row * VECTORS + vector) * V)[:, :, None] + tl.arange(0, V)[None, None, :]
        mask = tl.broadcast_to((inside & (vector < VECTORS))[:, :, None], at.shape)
        values = values + apart(widen(tl.load(x_ptr + at, mask=mask, other=-float("inf"))), V)
    keys = ()
    for i in tl.static_range(PIECES * V):
        column = (i // V * LANES + lane) * V + i % V
        key = (flipped(values[i].to(tl.int32, bitcast=True)) & ~low) | (low - column)
        if columns <= low:
            key = tl.where(column < columns, key, LOWEST)
        keys = keys + (key,)
    top, total = values[0], tl.zeros([ROWS, LANES], tl.float32)
    if not RENORMALISED:
        for i in tl.static_range(1, PIECES * V):
            top = tl.maximum(top, values[i])
        top = tl.max(top, axis=1, keep_dims=True)
        for i in tl.static_range(PIECES * V):
            total += power(values[i] - top, False)
        total = tl.sum(total, axis=1, keep_dims=True)
    keys, last, shares, experts = largest(keys, DEPTH, PIECES * V), LOWEST, (), ()
    tied = row < 0
    chosen = tl.zeros([ROWS, LANES], tl.float32)
    for number in tl.static_range(K):
        best = tl.max(keys[0], axis=1, keep_dims=True)
        tied |= ((best ^ last) & ~low) == 0
        last = best
        keys = behind(keys, keys[0] == best, K - number)
        if number % LANES == 0:
            expert = tl.zeros([ROWS, LANES], tl.int32)
        expert = tl.where(lane == number % LANES, low - (best & low), expert)
        if number % LANES == LANES - 1 or number == K - 1:
            wanted = inside & (number // LANES * LANES + lane < K)
            x = widen(tl.load(x_ptr + row * columns + expert, mask=wanted, other=-float("inf")))
            if RENORMALISED and number < LANES:
                top = tl.max(x, axis=1, keep_dims=True)
            shares = shares + (power(x - top, False),)
            experts = experts + (expert,)
            chosen += shares[number // LANES]
    if RENORMALISED:
        total = tl.sum(chosen, axis=1, keep_dims=True)
    for slot in tl.static_range(len(experts)):
        place = slot * LANES + lane
        tl.store(weight_ptr + row * K + place, shares[slot] / total, mask=inside & (place < K))
        tl.store(expert_ptr + row * K + place, experts[slot], mask=inside & (place < K))
    if x_ptr.dtype.element_ty == tl.float32:
        torn = ((tl.max(keys[0], axis=1, keep_dims=True) ^ last) & ~low) == 0
        if DEPTH < PIECES * V:
            torn |= tl.min(keys[0], axis=1, keep_dims=True) == LOWEST
        if tl.max(((tied | torn) & inside).to(tl.int32)) > 0:
            tl.debug_barrier()
            if tl.max((torn & inside).to(tl.int32)) > 0:
                exactly(weight_ptr, expert_ptr, x_ptr, inside, columns, top, total, K, RENORMALISED, ROWS, low + 1)
            else:
                ranked(weight_ptr, expert_ptr, x_ptr, inside, columns, top, total, K, ROWS)


@triton.jit
def ranked(weight_ptr, expert_ptr, x_ptr, inside, columns, top, total, K: tl.constexpr, ROWS: tl.constexpr):
    """The chosen ones again, each at the place that follows from how many of them come before it."""
    row, one = tl.arange(0, ROWS)[:, None], tl.arange(0, 32)[None, :]
    wanted = inside & (one < K)
    expert = tl.load(expert_ptr + row * K + one, mask=wanted, other=0)
    x = tl.load(x_ptr + row * columns + expert, mask=wanted, other=0.0)
    key, place = flipped(x.to(tl.int32, bitcast=True)), tl.zeros([ROWS, 32], tl.int32)
    for number in range(K):
        other = tl.load(expert_ptr + row * K + number, mask=inside, other=0)
        rival = flipped(tl.load(x_ptr + row * columns + other, mask=inside, other=0.0).to(tl.int32, bitcast=True))
        place += ((rival > key) | ((rival == key) & (other < expert))).to(tl.int32)
    tl.debug_barrier()
    tl.store(expert_ptr + row * K + place, expert, mask=wanted)
    tl.store(weight_ptr + row * K + place, power(x - top, False) / total, mask=wanted)


@triton.jit
def exactly(
    weight_ptr, expert_ptr, x_ptr, inside, columns, top, total,
    K: tl.constexpr, RENORMALISED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same by whole values, of which each turn takes the largest after the last one: of equal ones the first column."""
    row, turn = tl.arange(0, ROWS)[:, None], tl.arange(0, 32)[None, :]
    best, at = tl.full([ROWS, 1], 2**31 - 1, tl.int32), tl.full([ROWS, 1], -1, tl.int32)
    kept = tl.full([ROWS, 32], -float("inf"), tl.float32)
    for number in range(K):
        next_best, next_at = tl.full([ROWS, 1], LOWEST, tl.int32), tl.full([ROWS, 1], 0, tl.int32)
        for start in range(0, BLOCK, WIDE):
            column = start + tl.arange(0, WIDE)[None, :]
            x = tl.load(x_ptr + row * columns + column, mask=inside & (column < columns), other=0.0)
            key = flipped(x.to(tl.int32, bitcast=True))
            left = (column < columns) & ((key < best) | ((key == best) & (column > at)))
            key = tl.where(left, key, LOWEST)
            largest_one = tl.max(key, axis=1, keep_dims=True)
            first = tl.min(tl.where(key == largest_one, column, BLOCK), axis=1, keep_dims=True)
            next_at = tl.where(largest_one > next_best, first, next_at)
            next_best = tl.maximum(largest_one, next_best)
        best, at = next_best, next_at
        kept = tl.where(turn == number, flipped(best).to(tl.float32, bitcast=True), kept)
        tl.store(expert_ptr + row * K + number, at, mask=inside)
    share = power(kept - top, False)
    if RENORMALISED:
        total = tl.sum(share, axis=1, keep_dims=True)
    tl.store(weight_ptr + row * K + turn, share / total, mask=inside & (turn < K))


@triton.jit
def apart(x, V: tl.constexpr):
    """The V values of each vector, which a thread holds, as a tuple."""
    parts = (x,)
    for stage in tl.static_range(V.bit_length() - 1):
        finer = ()
        for i in tl.static_range(len(parts)):
            halves = tl.reshape(parts[i], [x.shape[0], x.shape[1], 2, V >> (stage + 1)])
            finer = finer + tl.split(tl.permute(halves, 0, 1, 3, 2))
        parts = finer
    flat = ()
    for i in tl.static_range(V):
        flat = flat + (tl.reshape(parts[i], [x.shape[0], x.shape[1]]),)
    return flat


@triton.jit
def flipped(bits):
    """Bits of floats as integers in their order, and back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def largest(keys, DEPTH: tl.constexpr, COUNT: tl.constexpr):
    """Every lane's DEPTH largest keys in falling order, by Batcher's bitonic sort: of two sorted groups the larger half stays."""
    depth: tl.constexpr = DEPTH.bit_length() - 1
    for stage in tl.static_range(depth):
        for turn in tl.static_range(stage + 1):
            keys = exchanged(keys, 1 << (stage - turn), 2 << stage)
    for halving in tl.static_range((COUNT // DEPTH).bit_length() - 1):
        larger = ()
        for i in tl.static_range(COUNT >> (halving + 1)):
            larger = larger + (tl.maximum(keys[i + i // DEPTH * DEPTH], keys[i + i // DEPTH * DEPTH + DEPTH]),)
        keys = larger
        for turn in tl.static_range(depth):
            keys = exchanged(keys, DEPTH >> (turn + 1), DEPTH)
    return keys


@triton.jit
def exchanged(keys, STEP: tl.constexpr, SPAN: tl.constexpr):
    """One step of the sort, the largest first in every other span."""
    found = ()
    for i in tl.static_range(len(keys)):
        if ((i & STEP) == 0) == ((i & SPAN) == 0):
            found = found + (tl.maximum(keys[i], keys[i ^ STEP]),)
        else:
            found = found + (tl.minimum(keys[i], keys[i ^ STEP]),)
    return found


@triton.jit
def behind(held, wins, WANTED: tl.constexpr):
    """Every lane's first WANTED keys, without the first one in the lane that wins."""
    rest = ()
    for i in tl.static_range(min(WANTED, len(held))):
        if i + 1 < len(held):
            rest = rest + (tl.where(wins, held[i + 1], held[i]),)
        else:
            rest = rest + (tl.where(wins, LOWEST, held[i]),)
    return rest
