"""What a part of a row is, a pair of float32, and how those of several threads merge: (count, first, second) each.

kept       numbers of a warp's part in shared memory: its pair, and the count where it matters
nothing    the pair of no elements
join       two parts to one
over_warp  those of a warp's threads to one pair; `whole`: their count, `lanes`: as many threads have a part, and get the pair
whole      what is stored of a whole row's pair
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32

from .config import WARP, power
from .online import reference, rescale
from .reduce import ADD, MAX, warp_reduce

Pair, Part = tuple[Float32, Float32], tuple[Float32, Float32, Float32]


class Sums:
    """(0, any sum)."""

    kept, nothing = 2, (0.0, 0.0)

    @staticmethod
    def join(one: Part, other: Part) -> Part:
        return one[0], one[1], one[2] + other[2]

    @staticmethod
    def over_warp(count: Float32 | None, first: Float32, total: Float32, whole: Float32 | None = None, lanes: int = WARP) -> Pair:
        return Float32(0.0), warp_reduce(total, ADD, power(min(lanes, WARP)))

    @staticmethod
    def whole(first: Float32, total: Float32) -> Pair:
        return first, total


class Peaks(Sums):
    """(maximum, sum of exp(x - reference(maximum)))."""

    nothing = (-math.inf, 0.0)

    @staticmethod
    def join(one: Part, other: Part) -> Part:
        top = cute.arch.fmax(one[1], other[1], nan=True)
        base = reference(top)
        return one[0], top, one[2] * rescale(reference(one[1]), base) + other[2] * rescale(reference(other[1]), base)

    @staticmethod
    def over_warp(count: Float32 | None, maximum: Float32, total: Float32, whole: Float32 | None = None, lanes: int = WARP) -> Pair:
        top = warp_reduce(maximum, MAX, WARP)
        return top, warp_reduce(total * rescale(reference(maximum), reference(top)), ADD, power(min(lanes, WARP)))

    @staticmethod
    def whole(maximum: Float32, total: Float32) -> Pair:
        return reference(maximum), total


class Moments(Sums):
    """(mean, sum of squared distances from it), which lose nothing where the mean is large against the deviation."""

    kept = 3

    @staticmethod
    def join(one: Part, other: Part) -> Part:
        count = one[0] + other[0]
        apart, weight = other[1] - one[1], other[0] / cutlass.max(count, Float32(1.0))
        return count, one[1] + apart * weight, one[2] + other[2] + apart * apart * one[0] * weight

    @staticmethod
    def over_warp(count: Float32, mean: Float32, squares: Float32, whole: Float32 | None = None, lanes: int = WARP) -> Pair:
        group = power(min(lanes, WARP))
        centre = warp_reduce(mean * count, ADD, group) / cutlass.max(whole, Float32(1.0))
        apart = mean - centre
        return centre, warp_reduce(squares + count * apart * apart, ADD, group)
