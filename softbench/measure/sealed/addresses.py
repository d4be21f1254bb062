"""The range of addresses that an author and its referee share: buffers of both lie at the same places in it.

Addresses are given out once. Every piece is followed by a guard, which the author's process never maps; the referee fills it with
known bytes.
"""

from itertools import pairwise

PIECE = 2 << 20
"""Bytes: the step in which the driver maps memory."""
BASES = (0x600000000000, 0x400000000000, 0x200000000000)
SPAN = 1 << 40


def rounded(size: int) -> int:
    """Bytes of the pieces that hold this many."""
    return -(-max(size, 1) // PIECE) * PIECE


def overlap(ranges: list[tuple[int, int]]) -> bool:
    """Whether any two of these ranges, each an address and bytes, share a byte."""
    ordered = sorted((first, size) for first, size in ranges if size)
    return any(a + size > b for (a, size), (b, _) in pairwise(ordered))


def without(whole: tuple[int, int], parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of a range when others are taken out of it."""
    left, at, end = [], whole[0], sum(whole)
    for first, size in sorted(parts):
        if first >= end or first + size <= at:
            continue
        if first > at:
            left.append((at, first - at))
        at = max(at, first + size)
    return [*left, (at, end - at)] if at < end else left
