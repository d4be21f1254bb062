"""The k largest of short rows and their softmax: lanes sort their parts of a row, whose lists are then merged.

Values are compared as integers in their order, whose lowest bits name the column: one integer moves where there were two, and no
two are equal. Of 32-bit values those bits are lost. Where they could decide the order of the chosen, these are ranked again; where
they, or what a lane leaves out, could decide who is chosen, a row is done again, value by value.
"""

# ruff: noqa: RUF005 -- Triton knows no starred tuple

import triton
import triton.language as tl

from ._lists import LOWEST, chosen, largest, moved
from ._math import overlap, power, widen


@triton.jit
def topk(
    weight_ptr, expert_ptr, x_ptr, rows, VECTORS: tl.constexpr, K: tl.constexpr, RENORMALISED: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr, PIECES: tl.constexpr, V: tl.constexpr, DEPTH: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """ROWS dense rows a program, LANES lanes a row, PIECES vectors of V columns a lane, of which it sorts the DEPTH largest.

    If they are fewer than K, a row has 32 lanes, and each finds one of the chosen.
    """
    if PDL:
        overlap()
    first = tl.program_id(0).to(tl.int64) * ROWS
    row, lane = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    low: tl.constexpr = LANES * PIECES * V - 1
    inside, columns = first + row < rows, VECTORS * V
    x_ptr += first * columns
    weight_ptr += first * K
    expert_ptr += first * K
    values = read(x_ptr, row, lane, inside, VECTORS, PIECES, V)
    top, total = values[0], tl.zeros([ROWS, LANES], tl.float32)
    if not RENORMALISED:
        for i in tl.static_range(1, PIECES * V):
            top = tl.maximum(top, values[i])
        top = tl.max(top, axis=1, keep_dims=True)
        for i in tl.static_range(PIECES * V):
            total += power(values[i] - top, False)
    lists = largest(named(values, lane, columns, low, LANES, V), DEPTH, PIECES * V)
    keys, last = chosen(lists, lane, K, LANES)
    experts, scores, shares = (), (), ()
    for slot in tl.static_range(len(keys)):
        experts = experts + (low - (keys[slot] & low),)
        wanted = inside & (slot * LANES + lane < K)
        scores = scores + (tl.load(x_ptr + row * columns + experts[slot], mask=wanted, other=-float("inf")),)
        if RENORMALISED and slot == 0:
            top = tl.max(widen(scores[0]), axis=1, keep_dims=True)
        shares = shares + (power(widen(scores[slot]) - top, False),)
        if RENORMALISED:
            total += shares[slot]
    total = tl.sum(total, axis=1, keep_dims=True)
    for slot in tl.static_range(len(keys)):
        place = row * K + slot * LANES + lane
        wanted = inside & (slot * LANES + lane < K)
        tl.store(weight_ptr + place, shares[slot] / total, mask=wanted)
        tl.store(expert_ptr + place, experts[slot], mask=wanted)
    is_wide: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    if is_wide or (DEPTH < K and DEPTH < PIECES * V):
        torn, tied = torn_rows(lists, last, low if is_wide else 0, K, DEPTH < PIECES * V), row < 0
        if is_wide:
            tied = tied_ones(keys, lane, low, K, LANES)
        if tl.max(((tied | torn) & inside).to(tl.int32)) > 0:
            tl.debug_barrier()
            if tl.max((torn & inside).to(tl.int32)) > 0:
                exactly(weight_ptr, expert_ptr, x_ptr, inside, columns, top, total, K, RENORMALISED, ROWS, low + 1)
            elif is_wide:
                ranked(weight_ptr, expert_ptr, row * K, scores, shares, experts, lane, inside, total, K, LANES)


@triton.jit
def read(x_ptr, row, lane, inside, VECTORS: tl.constexpr, PIECES: tl.constexpr, V: tl.constexpr):
    """PIECES * V values a lane, -inf beyond a row's end."""
    values = ()
    for piece in tl.static_range(PIECES):
        vector = piece * lane.shape[1] + lane
        at = ((row * VECTORS + vector) * V)[:, :, None] + tl.arange(0, V)[None, None, :]
        mask = tl.broadcast_to((inside & (vector < VECTORS))[:, :, None], at.shape)
        values = values + apart(widen(tl.load(x_ptr + at, mask=mask, other=-float("inf"))), V)
    return values


@triton.jit
def named(values, lane, columns: tl.constexpr, low: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr):
    """A key for each value: an integer that sorts as the value does; its lowest bits hold the column."""
    keys = ()
    for i in tl.static_range(len(values)):
        column = (i // V * LANES + lane) * V + i % V
        key = (flipped(values[i].to(tl.int32, bitcast=True)) & ~low) | (low - column)
        if columns <= low:
            key = tl.where(column < columns, key, LOWEST)
        keys = keys + (key,)
    return keys


@triton.jit
def torn_rows(lists, last, LOST: tl.constexpr, K: tl.constexpr, SHORT: tl.constexpr):
    """Where another one may be as large as the last one chosen but for LOST bits, or be missing because lists are SHORT."""
    near, least = tl.zeros(lists[0].shape, tl.int32), last & ~LOST
    if LOST > 0:
        for i in tl.static_range(len(lists)):
            near += (lists[i] >= least).to(tl.int32)
    if SHORT:
        near += tl.where(lists[len(lists) - 1] >= least, K + 1, 0)
    return tl.sum(near, axis=1, keep_dims=True) > K


@triton.jit
def tied_ones(keys, lane, LOST: tl.constexpr, K: tl.constexpr, LANES: tl.constexpr):
    """Which of the chosen are as large as the one before but for LOST bits."""
    tied = lane < 0
    for slot in tl.static_range(len(keys)):
        before = moved(keys[slot], tl.maximum(lane - 1, 0))
        if slot > 0:
            before = tl.where(lane > 0, before, moved(keys[slot - 1], lane * 0 + (LANES - 1)))
        number = slot * LANES + lane
        tied |= (((before ^ keys[slot]) & ~LOST) == 0) & (number > 0) & (number < K)
    return tied


@triton.jit
def ranked(weight_ptr, expert_ptr, start, scores, shares, experts, lane, inside, total, K: tl.constexpr, LANES: tl.constexpr):
    """The chosen ones again, each at the place that follows from how many of them come before it."""
    keys = ()
    for slot in tl.static_range(len(scores)):
        keys = keys + (flipped(scores[slot].to(tl.int32, bitcast=True)),)
    for slot in tl.static_range(len(scores)):
        own, to = slot * LANES + lane, tl.broadcast_to(start, keys[0].shape)
        for number in tl.static_range(K):
            rival = moved(keys[number // LANES], lane * 0 + number % LANES)
            to += ((rival > keys[slot]) | ((rival == keys[slot]) & (number < own))).to(tl.int32)
        tl.store(weight_ptr + to, shares[slot] / total, mask=inside & (own < K))
        tl.store(expert_ptr + to, experts[slot], mask=inside & (own < K))


@triton.jit
def exactly(
    weight_ptr, expert_ptr, x_ptr, inside, columns, top, total,
    K: tl.constexpr, RENORMALISED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same by whole values, of which each turn takes the largest after the last one: of equal ones the first column."""
    row, turn = tl.arange(0, ROWS)[:, None], tl.arange(0, 32)[None, :]
    best, at = tl.full([ROWS, 1], 2**31 - 1, tl.int32), tl.full([ROWS, 1], -1, tl.int32)
    kept = tl.full([ROWS, 32], -float("inf"), tl.float32)
    part: tl.constexpr = min(BLOCK, 256 // ROWS)  # 8 values a thread: more would take registers from every row
    for number in range(K):
        next_best, next_at = tl.full([ROWS, 1], LOWEST, tl.int32), tl.full([ROWS, 1], 0, tl.int32)
        for start in range(0, BLOCK, part):
            column = start + tl.arange(0, part)[None, :]
            x = widen(tl.load(x_ptr + row * columns + column, mask=inside & (column < columns), other=0.0))
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
