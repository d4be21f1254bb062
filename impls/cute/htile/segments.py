"""Segments of a row in a warp: each lane has a few neighbouring values, and a word whose bit i says that one starts at value i."""

from __future__ import annotations

from collections.abc import Callable

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32

from .config import WARP
from .copy import load_shared
from .lists import ptx
from .online import LOWEST, rescale

NOTHING = (LOWEST, 0.0, LOWEST, -1.0)  # a part; the negative sum says that it has no second segment


def pick(where: Boolean, a: cutlass.Numeric, b: cutlass.Numeric) -> cutlass.Numeric:
    return type(a)(cutlass.select_(where, a, b))


def larger(a: Float32, b: Float32) -> Float32:
    return cute.arch.fmax(a, b, nan=True)


def plus(a: Float32, b: Float32) -> Float32:
    return a + b


def highest(word: Int32) -> Int32:
    """The number of the highest bit; -1 of 0."""
    return ptx("bfind.u32 {$w0}, {$r0};", word)


def lowest(word: Int32) -> Int32:
    return highest(word & -word)


class Segments:
    """Where segments start among a warp's values, `count` per lane; lanes: those in which one does.

    read  gives a lane's word. Each reduction asks again, or the compiler keeps what it has made of the word in registers
    """

    def __init__(self, read: Callable[[], Int32], count: int):
        self.read, self.bits, self.count, self.lane = read, read(), count, cute.arch.lane_idx()
        self.lanes = cute.arch.vote_ballot_sync(self.bits != 0)
        before, through = ((Int32(n) << self.lane) - 1 for n in (1, 2))  # lanes before this one, and with it
        self.earlier, self.here, self.later = self.lanes & before, self.lanes & through, self.lanes & ~through

    def reduce(self, values: list, operation: Callable, nothing: float) -> tuple[list, Float32, Float32]:
        """What the segment of each value has in the warp, and what those have that this lane begins and ends in."""
        word = self.bits = self.read()
        starts = [(word >> i & 1) != 0 for i in range(self.count)]
        absent = Float32(nothing)
        runs = [operation(absent, values[0])]
        for start, value in zip(starts[1:], values[1:], strict=True):
            runs.append(operation(pick(start, absent, runs[-1]), value))
        head = pick(starts[0], absent, _back(starts, runs, runs[-1])[0])
        first, last = self._lanes(head, runs[-1], operation, absent)
        none = [(word & (2 << i) - 1) == 0 for i in range(self.count)]
        found = [pick(n, first, value) for n, value in zip(none, _back(starts, runs, last), strict=True)]
        return found, first, last

    def _lanes(self, head: Float32, tail: Float32, operation: Callable, absent: Float32) -> tuple[Float32, Float32]:
        """The last two of `reduce`, from this lane's values before its first start, and from its last one on, or all."""
        lane, total, shuffle = self.lane, tail, cute.arch.shuffle_sync
        begin = cutlass.max(highest(self.here), Int32(0))
        for step in (1, 2, 4, 8, 16):
            total = pick(lane - step >= begin, operation(shuffle(total, lane - step), total), total)
        ended = operation(pick(lane == 0, absent, shuffle(total, lane - 1)), head)
        after = shuffle(ended, lowest(self.later) & WARP - 1)
        last = pick(self.later != 0, after, shuffle(total, WARP - 1))
        return pick(self.bits != 0, ended, last), last

    def open(self) -> tuple[Int32, Int32]:
        """This lane's values before number `upto` are of the warp's first segment, and those from `since` on of its last."""
        none, every, starts = Int32(0), Int32(self.count), self.bits != 0
        upto = pick(self.earlier != 0, none, pick(starts, lowest(self.bits), every))
        return upto, pick(self.later != 0, every, pick(starts, highest(self.bits), none))


def _back(starts: list, runs: list, last: Float32) -> list:
    """For each value the run at its segment's end; `last` from the last start on."""
    found = [last]
    for start, run in zip(starts[:0:-1], runs[-2::-1], strict=True):
        found.insert(0, pick(start, run, found[0]))
    return found


class Joined:
    """The segments of neighbouring parts of a row, some per lane.

    A part is (maximum, sum of exponentials) before its first start, or of all, and the same from its last start on.
    """

    def __init__(self, parts: list):
        self.bases = [base for part in parts for base in part[::2]]
        starts, totals = Int32(0), []
        for i, (_, head, _, tail) in enumerate(parts):
            starts = starts | pick(tail < 0, Int32(0), Int32(2 << 2 * i))
            totals += [head, pick(tail < 0, Float32(0.0), tail)]
        self.segments = Segments(lambda: starts, 2 * len(parts))
        self.peaks, *ends = self.segments.reduce(self.bases, larger, LOWEST)
        scaled = [total * rescale(base, peak) for total, base, peak in zip(totals, self.bases, self.peaks, strict=True)]
        self.sums, *sums = self.segments.reduce(scaled, plus, 0.0)
        self.ends = tuple(zip(ends, sums, strict=True))

    def whole(self) -> tuple[Float32, ...]:
        """All of them as one part."""
        (first, last), shuffle, lacks = self.ends, cute.arch.shuffle_sync, self.segments.lanes == 0
        ends = [pick(lacks, Float32(none), shuffle(value, WARP - 1)) for value, none in zip(last, NOTHING[2:], strict=True)]
        return (*(shuffle(value, 0) for value in first), *ends)

    def settle(self, around: Joined, lane: Int32):
        """Replace the first segment and the last by what they are where these are the part of a lane."""
        upto, since = self.segments.open()
        first, last = ([cute.arch.shuffle_sync(value, lane) for value in end] for end in around.ends)
        for values, far, near in zip((self.peaks, self.sums), first, last, strict=True):
            values[:] = [pick(upto > i, far, pick(since <= i, near, value)) for i, value in enumerate(values)]


class Marks:
    """Where segments start in a CTA's share of a row, from `ends` (rows, segments), of which all but the last count."""

    def __init__(self, context, ends: cute.Tensor, count: int):
        self.context, self.ends, self.last = context, ends, count - 1
        config = context.config
        layout = cute.make_layout(config.vectors_per_thread * config.threads)
        self.words = cutlass.memory.SmemAllocator().allocate_tensor(Int32, layout, byte_alignment=16)
        self.size = config.cta_vectors * config.vector
        self.start = context.rank * self.size - context.shift  # the column of the share's first element

    def bits(self, turn: int) -> Int32:
        """Of this thread's vector number `turn`."""
        word, place = cute.make_rmem_tensor(1, Int32), self.context.tidx + turn * self.context.config.threads
        load_shared(self.words.iterator + place, cute.recast_tensor(word, Int32))
        return word[0]

    @cute.jit
    def bring(self):
        config, words, thread = self.context.config, self.words, self.context.tidx
        for turn in cutlass.range_constexpr(config.vectors_per_thread):
            words[thread + turn * config.threads] = Int32(0)
        cute.arch.sync_threads()
        for segment in cutlass.range(thread, self.last, config.threads, unroll=4):
            end = self.ends[self.context.row, segment]
            place = end - self.start
            if (end > 0) & (end < config.columns) & (place >= 0) & (place < self.size):
                bit = Int32(1) << Int32(place) % config.vector
                cute.arch.atomic_or(words.iterator + Int32(place) // config.vector, bit)
        cute.arch.sync_threads()
