"""Keys that the lanes of a row sort, each its own, and the largest of all lanes.

A tuple holds a key of each lane in a place; of lists in falling order, of which there is one per lane, it is what each has there.
"""

# ruff: noqa: RUF005 -- Triton knows no starred tuple

import triton
import triton.language as tl

LOWEST: tl.constexpr = tl.constexpr(-(2**31))
"""Below every key of a number."""


@triton.jit
def chosen(lists, lane, K: tl.constexpr, LANES: tl.constexpr):
    """The K largest keys of all lanes' lists in falling order, LANES of them at a time, and the last one."""
    if len(lists) < K:
        found = in_order(one_list(lists, lane), lane) if K > 16 else one_by_one(lists, lane, K)
        return (found,), moved(found, lane * 0 + (K - 1))
    else:
        keys, found = merged(lists, lane, K, LANES), ()
        for start in tl.static_range(0, K, LANES):
            key = keys[start]
            for number in tl.static_range(start + 1, min(K, start + LANES)):
                key = tl.where(lane == number - start, keys[number], key)
            found = found + (key,)
        return found, keys[K - 1]


@triton.jit
def one_by_one(lists, lane, K: tl.constexpr):
    """The K largest of all lanes' lists, one per lane: the largest head is taken, K times."""
    found = tl.full(lists[0].shape, LOWEST, tl.int32)
    for number in tl.static_range(K):
        best = tl.max(lists[0], axis=1, keep_dims=True)
        found, rest = tl.where(lane == number, best, found), ()
        for i in tl.static_range(min(K - number, len(lists))):
            after = lists[i + 1] if i + 1 < len(lists) else LOWEST
            rest = rest + (tl.where(lists[0] == best, after, lists[i]),)
        lists = rest
    return found


@triton.jit
def merged(lists, lane, K: tl.constexpr, LANES: tl.constexpr):
    """In every lane of a row the K largest keys of all its lanes' lists."""
    depth: tl.constexpr = triton.next_power_of_2(K)
    keys = ()
    for i in tl.static_range(depth):
        keys = keys + (lists[i],)
    for turn in tl.static_range(LANES.bit_length() - 1):
        keys = ordered(halved(keys, lane ^ (1 << turn), depth), depth)
    return keys


@triton.jit
def halved(keys, other, DEPTH: tl.constexpr):
    """The first DEPTH of the larger ones of a falling list and another lane's, that one backwards: a bitonic list."""
    larger = ()
    for i in tl.static_range(DEPTH):
        larger = larger + (tl.maximum(keys[i], moved(keys[len(keys) - 1 - i], other)),)
    return larger


@triton.jit
def largest(keys, DEPTH: tl.constexpr, COUNT: tl.constexpr):
    """Every lane's DEPTH largest keys in falling order: groups by Batcher's odd-even sort, the larger half of two of them stays."""
    depth: tl.constexpr = DEPTH.bit_length() - 1
    for stage in tl.static_range(depth):
        for turn in tl.static_range(stage + 1):
            keys = exchanged(keys, 1 << (stage - turn), 1 << stage)
    for halving in tl.static_range((COUNT // DEPTH).bit_length() - 1):
        larger = ()
        for i in tl.static_range(COUNT >> (halving + 1)):
            larger = larger + (tl.maximum(keys[i // DEPTH * DEPTH + i], keys[(i // DEPTH * 3 + 2) * DEPTH - 1 - i]),)
        keys = ordered(larger, DEPTH)
    return keys


@triton.jit
def exchanged(keys, STEP: tl.constexpr, SPAN: tl.constexpr):
    """One step, the largest first, by which two sorted groups of SPAN keys become one; with STEP = SPAN also a bitonic one."""
    found = ()
    for i in tl.static_range(len(keys)):
        if i % (2 * SPAN) >= STEP % SPAN and (i - STEP % SPAN) % (2 * STEP) < STEP and i % (2 * SPAN) + STEP < 2 * SPAN:
            found = found + (tl.maximum(keys[i], keys[i + STEP]),)
        elif i % (2 * SPAN) >= STEP % SPAN + STEP and (i - STEP % SPAN) % (2 * STEP) >= STEP:
            found = found + (tl.minimum(keys[i], keys[i - STEP]),)
        else:
            found = found + (keys[i],)
    return found


@triton.jit
def ordered(keys, DEPTH: tl.constexpr):
    """A bitonic list in falling order."""
    for turn in tl.static_range(DEPTH.bit_length() - 1):
        keys = exchanged(keys, DEPTH >> (turn + 1), DEPTH >> (turn + 1))
    return keys


@triton.jit
def one_list(keys, lane):
    """The 32 largest of 32 lanes' lists of 8, one per lane: lists of lanes that meet grow to 32 keys, then halve per lane.

    A meeting turns the order of the joining lanes round. So the place of a key is told by parities of bits of its lane.
    """
    bit = 1 << lane
    keys = ordered(crossed(keys, lane, bit, 1, 1, True), 8)
    keys = crossed(crossed(keys, lane, bit, 3, 2, True), lane, bit, 1, 1, False)
    keys = halved(ordered(keys, 8), lane ^ 7, 4)
    keys = crossed(crossed(keys, lane, bit, 2, 6, False), lane, bit, 1, 5, False)
    keys = ordered(crossed(keys, lane, bit, 7, 4, True), 4)
    keys = halved(keys, lane ^ 12, 2)
    keys = crossed(crossed(keys, lane, bit, 2, 14, False), lane, bit, 1, 13, False)
    keys = crossed(crossed(keys, lane, bit, 7, 12, False), lane, bit, 12, 8, True)
    keys = halved(ordered(keys, 2), lane ^ 24, 1)
    keys = crossed(crossed(keys, lane, bit, 2, 30, False), lane, bit, 1, 29, False)
    keys = crossed(crossed(keys, lane, bit, 7, 28, False), lane, bit, 12, 24, False)
    return crossed(keys, lane, bit, 24, 16, True)[0]


@triton.jit
def in_order(key, lane):
    """Keys in falling order, from where `one_list` leaves them."""
    one, two, four = lane & 1, lane >> 1 & 1, lane >> 2 & 1
    source = one << 4 | (one ^ two) << 3 | (two ^ four) << 2 | (four ^ lane >> 4) << 1 | (four ^ (lane >> 3 & 1))
    return moved(key, source)


@triton.jit
def crossed(keys, lane, bit, MASK: tl.constexpr, PARITY: tl.constexpr, BACKWARDS: tl.constexpr):
    """Of each pair with the lane that MASK leads to, the larger key to the one with an even number of the bits of PARITY."""
    odd: tl.constexpr = (
        (PARITY & 1) * 0xAAAAAAAA ^ (PARITY >> 1 & 1) * 0xCCCCCCCC ^ (PARITY >> 2 & 1) * 0xF0F0F0F0
        ^ (PARITY >> 3 & 1) * 0xFF00FF00 ^ (PARITY >> 4 & 1) * 0xFFFF0000
    )  # fmt: skip
    is_even, found = (bit & ((odd ^ 0x80000000) - 0x80000000)) == 0, ()
    for i in tl.static_range(len(keys)):
        rival = moved(keys[len(keys) - 1 - i if BACKWARDS else i], lane ^ MASK)
        found = found + (tl.where(is_even, tl.maximum(keys[i], rival), tl.minimum(keys[i], rival)),)
    return found


@triton.jit
def moved(x, lane):
    """Another lane's value."""
    return tl.gather(x, tl.broadcast_to(lane, x.shape), axis=1)
