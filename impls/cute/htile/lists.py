"""Falling lists over the lanes of a row: lane l has places l * n to l * n + n - 1, in n registers.

Of keys, different integers of a value and its column, or of pairs of 16-bit floats, whose halves are two lists.
"""

from __future__ import annotations

import functools

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int16, Int32, Int64

CODES = 0xFFFF  # the lowest bits of a key name its column
ABSENT = -2  # bits of a NaN


class Keys:
    """16 bits of value and 16 of column, or 32 and 32."""

    def __init__(self, dtype: type[cutlass.Numeric]):
        self.source, self.dtype = dtype, Int32 if dtype.width == 16 else Int64
        self.shift, self.most = self.dtype.width - dtype.width, (1 << (dtype.width - 1)) - 1
        self.infinity = (0x7C00 if dtype is cutlass.Float16 else 0x7F80) << (dtype.width - 16)
        self.lowest, self.top = (self.dtype(x) for x in (-(1 << (self.dtype.width - 1)), (1 << (self.dtype.width - 1)) - 1))

    def flipped(self, word: Int32) -> Int32:
        """Bits of floats as integers in their order, and back."""
        return word ^ ((word >> 31) & self.most)

    def of(self, word: Int32, column: Int32) -> Int32 | Int64:
        """Of a number's bits; of equal values the first column comes first."""
        return (self.dtype(self.flipped(word)) << self.shift) - column

    def of_any(self, word: Int32, column: Int32) -> Int32 | Int64:
        return self.of(self.known(word), column)

    def known(self, word: Int32) -> Int32:
        """NaN becomes the largest value, with either sign."""
        return Int32(cutlass.select_((word & self.most) > self.infinity, Int32(self.most), word))

    def column(self, key: Int32 | Int64) -> Int32:
        return -Int32(key) & CODES

    def value(self, key: Int32 | Int64) -> Float32:
        return number(self.flipped(Int32((key + CODES) >> self.shift)), self.source)

    def exchanged(self, mine, other, is_first):
        """The larger one for the first of two."""
        return cutlass.select_((mine > other) == is_first, mine, other)

    def both(self, a, b) -> tuple:
        is_larger = a > b
        return cutlass.select_(is_larger, a, b), cutlass.select_(is_larger, b, a)


class Pairs:
    """Two floats in a word, of float32 their upper halves. What NaN is compared with becomes NaN."""

    def __init__(self, dtype: type[cutlass.Numeric]):
        self.form = "f16x2" if dtype is cutlass.Float16 else "bf16x2"
        self.keys = Keys(dtype if dtype.width == 16 else cutlass.BFloat16)
        self.infinite = Int32(0x7C007C00 if dtype is cutlass.Float16 else 0x7F807F80)

    def both(self, a, b) -> tuple:
        return tuple(ptx(f"{name}.NaN.{self.form} {{$w0}}, {{$r0}}, {{$r1}};", a, b) for name in ("max", "min"))

    def exchanged(self, mine, other, is_first):
        return cutlass.select_(is_first, *self.both(mine, other))

    def code(self, pair: Int32) -> Int32:
        """An integer in the order of floats, for a pair of equal ones."""
        return self.keys.flipped(half(pair, self.keys.source))

    def pair(self, code: Int32) -> Int32:
        return twice(self.keys.flipped(code), self.keys.source)

    def marks(self, words: list, bound: Int32) -> Int32:
        """Bit i and bit 16 + i: the halves of at most 16 words that reach the bound, or all if that is NaN.

        A mask is 65535 times its halves' bits; multiplications, which have a pipe of their own, add them up.
        """
        total = Int32(0)
        for i, word in enumerate(words):
            mask = ptx(f"set.geu.u32.{self.form} {{$w0}}, {{$r0}}, {{$r1}};", word, bound)
            total = ptx(f"mad.lo.s32 {{$w0}}, {{$r0}}, {-1 << i}, {{$r1}};", mask, total)
        return ptx("mad.lo.s32 {$w0}, {$r0}, 65536, {$r1};", total, total)


def ptx(text: str, *words) -> Int32:
    return cute.arch.inline_ptx(text, write_only_types=[Int32], read_only_args=list(words))


def bits(value: cutlass.Numeric, dtype: type[cutlass.Numeric]) -> Int32:
    return Int32(value.bitcast(Int16)) if dtype.width == 16 else value.bitcast(Int32)


def number(word: Int32, dtype: type[cutlass.Numeric]) -> Float32:
    return Float32(Int16(word).bitcast(dtype)) if dtype.width == 16 else word.bitcast(Float32)


def half(pair: Int32, dtype: type[cutlass.Numeric]) -> Int32:
    """The bits of a pair's first float, with its sign."""
    return ptx("prmt.b32 {$w0}, {$r0}, {$r0}, 0x9910;", pair)


def twice(word: Int32, dtype: type[cutlass.Numeric]) -> Int32:
    """The pair of equal floats with these bits."""
    return ptx("prmt.b32 {$w0}, {$r0}, {$r0}, 0x1010;", word)


def fetched(place: cute.Pointer, column: Int32, left: Int32, least: int, dtype: type[cutlass.Numeric]) -> Int32:
    """The bits of a value in memory, or of a NaN below all numbers unless more than the least are left."""
    form, size = ("s16", 2) if dtype.width == 16 else ("b32", 4)
    text = f"{{ .reg .pred p; .reg .b64 a; setp.gt.s32 p, {{$r2}}, {least}; mad.wide.s32 a, {{$r1}}, {size}, {{$r0}}; "
    return ptx(text + f"mov.b32 {{$w0}}, {ABSENT}; @p ld.global.{form} {{$w0}}, [a]; }}", place.toint(), column, left)


def leave(address: Int32, word: Int32):
    """A word in shared memory."""
    cute.arch.inline_ptx("st.shared.b32 [{$r0}], {$r1};", read_only_args=[address, word])


def falling(keys: list, lanes: int, lane: Int32, kind: Keys | Pairs) -> list:
    """Sorted: lists meet end to end, so that the larger one always comes to the lower place."""
    each = len(keys)
    for span in (1 << i for i in range(1, (each * lanes).bit_length())):
        for step in (span - 1, *(span >> i for i in range(2, span.bit_length()))):
            lower = (lane & (1 << ((step // each).bit_length() - 1))) == 0 if step >= each else None
            keys = met(keys, step % each, step // each, lower, kind)
    return keys


def met(keys: list, inner: int, outer: int, is_first, kind: Keys | Pairs) -> list:
    """Compared with those whose numbers, and lanes' numbers, differ in some bits."""
    found, count = list(keys), range(len(keys))
    if outer:
        others = [cute.arch.shuffle_sync_bfly(keys[i ^ inner], offset=outer) for i in count]
        return [kind.exchanged(key, other, is_first) for key, other in zip(keys, others, strict=True)]
    for i in (i for i in count if i < i ^ inner):
        found[i], found[i ^ inner] = kind.both(keys[i], keys[i ^ inner])
    return found


def larger_half(keys: list, lanes: int, lane: Int32, kind: Keys) -> tuple[list, Int32]:
    """The larger half of all lanes' keys, sorted, half as many per lane, and the place of a lane's first one.

    The sorted halves of the lanes meet. Those of the upper half then have the last places of their mirrored lanes.
    """
    keys, kept, is_lower = falling(keys, lanes // 2, lane, kind), len(keys) // 2, lane < lanes // 2
    keys = [cutlass.max(keys[i], cute.arch.shuffle_sync_bfly(keys[-1 - i], offset=lanes - 1)) for i in range(kept)]
    mirrored = cutlass.select_(is_lower, lane, lanes - 1 - lane)
    for step in (lanes >> i for i in range(2, lanes.bit_length())):
        keys = met(keys, 0, step, (mirrored & step) == 0, kind)
    keys = met(keys, kept - 1, lanes - 1, is_lower, kind)
    for step in (kept >> i for i in range(1, kept.bit_length())):
        keys = met(keys, step, 0, None, kind)
    return keys, (mirrored * 2 + cutlass.select_(is_lower, Int32(0), Int32(1))) * kept


def kth(tops: list, k: int, lanes: int, lane: Int32, kind: Pairs) -> Int32:
    """The k-th largest of two falling lists, the halves of pairs, in both halves.

    The larger ones of place i of the one and k - 1 - i of the other are the k largest.
    """
    each, own, larger = len(tops), cute.arch.lane_idx() - lane, []
    for i in range(min(each, k)):
        other = cute.arch.shuffle_sync(tops[(k - 1 - i) % each], own + ((k - 1 - i) // each - lane) % lanes)
        other = ptx("prmt.b32 {$w0}, {$r0}, {$r0}, 0x1032;", other)
        larger.append(cutlass.select_(lane * each + i < k, kind.both(tops[i], other)[0], kind.infinite))

    def smaller(a: Int32, b: Int32) -> Int32:
        return kind.both(a, b)[1]

    return cute.arch.warp_reduction(functools.reduce(smaller, larger), smaller, threads_in_group=lanes)


def before(count: Int32, lanes: int, lane: Int32) -> tuple[Int32, Int32]:
    """The counts of other lanes that come first, and of all lanes."""
    start, total = Int32(0), count
    for i in range(lanes.bit_length() - 1):
        other = cute.arch.shuffle_sync_bfly(total, offset=1 << i)
        start, total = start + cutlass.select_((lane & (1 << i)) != 0, other, 0), total + other
    return start, total
