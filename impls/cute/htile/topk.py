"""The layout of a router: rows of a few lanes each, which find the k largest. Without cutlass."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .config import VECTOR_BYTES, WARP, ceil_div, power
from .side import start_bytes

MOST_EXPERTS, MOST_CHOSEN = 1024, 32
DIRECT = 8  # columns that a thread sorts at once
LANES, LANE_BYTES = 4, 64  # of a row at least, if it has as many vectors; of a row per lane
GROUP = 8  # the fewest columns per pair of maxima, where there is little room for candidates
MANY, MANY_GROUPS = 16, 32  # chosen, above which a row has half a warp at most; its pairs of maxima
FEW, FEW_GROUPS = 4, 16  # chosen, whose bound must be closer, as there is room for few candidates
THREADS, HEAVY_BYTES = 128, 128  # of a CTA; of a thread, from which CTAs of one warp are faster


@dataclass(frozen=True)
class TopkConfig:
    """lanes: threads of a row; slots: candidates of a thread; groups: its pairs of maxima, 0 where all columns are candidates.

    bytes: of a vector. All are powers of two.
    """

    columns: int
    itemsize: int
    k: int
    lanes: int
    slots: int
    groups: int
    threads: int = THREADS
    bytes: int = VECTOR_BYTES

    aligned, cluster = True, 1

    @property
    def vector(self) -> int:
        return self.bytes // self.itemsize

    @property
    def turns(self) -> int:
        """Vectors of a thread, of at least two elements."""
        return max(power(ceil_div(self.columns, self.vector * self.lanes)), ceil_div(min(2, self.slots), self.vector))

    @property
    def each(self) -> int:
        return self.turns * self.vector

    @property
    def rows(self) -> int:
        return self.threads // self.lanes

    @property
    def resident(self) -> int:
        """CTAs of a multiprocessor, for which registers suffice."""
        return min(10, 64 // self.slots)

    @property
    def candidates(self) -> int:
        return self.lanes * self.slots

    @property
    def halves(self) -> bool:
        return self.lanes > 1 and self.slots > 1 and 2 * self.k <= self.candidates

    @property
    def kept(self) -> int:
        """Of the largest, a thread's."""
        return self.slots >> self.halves

    @property
    def store(self) -> int:
        """Results that a thread writes at a time."""
        return math.gcd(self.k, self.kept, 4)

    def is_inner(self, turn: int) -> bool:
        return (turn + 1) * self.lanes * self.vector <= self.columns

    def column(self, number, lane):
        """The column of a lane's element."""
        return (number & -self.vector) * self.lanes + (number & self.vector - 1) + lane * self.vector


def choose_topk(columns: int, itemsize: int, k: int, architecture: str, place: int = 0) -> TopkConfig:
    """The layout for rows that begin at address `place`. Raises ValueError where there is none."""
    if not (k <= columns <= MOST_EXPERTS and 1 <= k <= MOST_CHOSEN) or architecture != "sm_90":
        raise ValueError(f"no layout for {k} of {columns} columns on {architecture}")
    size, block = start_bytes(columns * itemsize, itemsize, place), power(columns)
    candidates = power(k + k // 2 + 1)
    if block <= max(DIRECT, candidates):
        slots = min(block, DIRECT)
        return TopkConfig(columns, itemsize, k, block // slots, slots, 0, THREADS, size)
    bytes_ = block * itemsize
    lanes = min(bytes_ // VECTOR_BYTES, max(LANES, bytes_ // LANE_BYTES), WARP // 2 if k > MANY else WARP)
    groups = MANY_GROUPS if k > MANY else power(k) if candidates >= 2 * k else min(2 * power(k), max(power(k), block // GROUP))
    groups = groups if k > FEW else min(FEW_GROUPS, 2 * block // GROUP)
    groups = min(max(1, groups // lanes), block // lanes // 2)
    threads = WARP if bytes_ // lanes >= HEAVY_BYTES else THREADS
    return TopkConfig(columns, itemsize, k, lanes, max(1, candidates // lanes), groups, threads, size)
