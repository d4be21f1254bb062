"""What a part of a row is, a pair of float32, and how those of several threads merge: (count, first, second) each.

nothing    the pair of no elements
join       two parts to one
over_warp  those of a warp's threads to one pair, which all of them get
whole      what is stored of a whole row's pair
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32

from .config import WARP
from .online import reference, rescale
from .reduce import ADD, MAX, warp_reduce

Part = tuple[Float32, Float32, Float32]


class Peaks:
    """(maximum, sum of exp(x - reference(maximum))), or (0, any sum). The count does not matter."""

    nothing = (-math.inf, 0.0)

    @staticmethod
    def join(one: Part, other: Part) -> Part:
        top = cute.arch.fmax(one[1], other[1], nan=True)
        base = reference(top)
        return one[0], top, one[2] * rescale(reference(one[1]), base) + other[2] * rescale(reference(other[1]), base)

    @staticmethod
    def over_warp(count: Float32, maximum: Float32, total: Float32) -> tuple[Float32, Float32]:
        top = warp_reduce(maximum, MAX, WARP)
        return top, warp_reduce(total * rescale(reference(maximum), reference(top)), ADD, WARP)

    @staticmethod
    def whole(maximum: Float32, total: Float32) -> tuple[Float32, Float32]:
        return reference(maximum), total


class Moments:
    """(mean, sum of squared distances from it), which lose nothing where the mean is large against the deviation."""

    nothing = (0.0, 0.0)

    @staticmethod
    def join(one: Part, other: Part) -> Part:
        count = one[0] + other[0]
        apart, weight = other[1] - one[1], other[0] / cutlass.max(count, Float32(1.0))
        return count, one[1] + apart * weight, one[2] + other[2] + apart * apart * one[0] * weight

    @staticmethod
    def over_warp(count: Float32, mean: Float32, squares: Float32) -> tuple[Float32, Float32]:
        whole = cutlass.max(warp_reduce(count, ADD, WARP), Float32(1.0))
        centre = warp_reduce(mean * count, ADD, WARP) / whole
        apart = mean - centre
        return centre, warp_reduce(squares + count * apart * apart, ADD, WARP)

    @staticmethod
    def whole(mean: Float32, squares: Float32) -> tuple[Float32, Float32]:
        return mean, squares
