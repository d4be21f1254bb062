"""The maximum and the sum of exponentials of a row in one exchange.

A part of a row is a pair (m, s): its maximum, and the sum of exp(x - m). Two parts merge to
(M, s1·exp(m1 - M) + s2·exp(m2 - M)) with M = max(m1, m2) (Milakov and Gimelshein, arXiv:1805.02867). A part that is
all -inf has m = -inf, s = 0, and -inf - -inf would be NaN; `reference` avoids that subtraction.
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from .reduce import ADD, MAX, Reduction, warp_reduce

LOG2_E = math.log2(math.e)
LOWEST = -3.4028234663852886e38
LIFT = 8.0


def reference(maximum: Float32) -> Float32:
    """The number to subtract before an exponential: the maximum, or the lowest finite number if that is -inf.

    NaN stays NaN. -inf - reference is -inf, whose exponential is 0, for every maximum.
    """
    return cute.arch.fmax(maximum, LOWEST, nan=True)


def exponential(x: cute.TensorSSA, base: Float32 | cute.TensorSSA, subnormals: bool = False, lift: float = 0.0) -> cute.TensorSSA:
    """exp(x - base + lift) of float32 values by the hardware's exp2; results below 2^-126 are 0 unless `subnormals`.

    The difference comes first: x·log2(e) - base·log2(e) would lose the digits that x and base share, 3e-4 of the result
    at an offset of 1e4. One ex2.approx per value: the vector form of exp2 needs flags that let the compiler assume
    that no value is infinite or NaN.
    """
    values = cute.make_rmem_tensor(x.shape, Float32)
    exponents = (x - base) * LOG2_E
    values.store(exponents + lift * LOG2_E if lift else exponents)
    for i in range(cute.size(values)):
        values[i] = cute.math.exp2(values[i], approx=True, ftz=not subnormals)
    return values.load()


def reaches_subnormals(dtype: type[cutlass.Numeric]) -> bool:
    """Whether results of `dtype` need exponentials below 2^-126, which take three more instructions each.

    float16 has no results below 2^-25, and bfloat16 has a lowered base.
    """
    return dtype not in (cutlass.Float16, cutlass.BFloat16)


def lowered(base: Float32, dtype: type[cutlass.Numeric]) -> Float32:
    """The base of exponentials whose product with a scale is rounded to `dtype`.

    In bfloat16, which reaches as low as float32, three instructions would cost 4 % of the bandwidth. Its base is LIFT lower
    instead, so that the product is rounded to a subnormal correctly. bfloat16 ends at exp(-93) and the hardware's exp2 at
    exp(-87), so LIFT is at least 6, and at most about 8: a scale that is itself subnormal is off by up to 2^-150, the product
    by exp(LIFT) times as much.
    """
    return base - LIFT if dtype is cutlass.BFloat16 else base


def largest(dtype: type[cutlass.Numeric]) -> float:
    """The most that an exponential over a lowered base can be."""
    return math.exp(LIFT) if dtype is cutlass.BFloat16 else 1.0


def normalised(x: cute.TensorSSA, base: Float32, scale: Float32, dtype: type[cutlass.Numeric]) -> cute.TensorSSA:
    """exp(x - base) · scale, down to the smallest results that `dtype` holds."""
    low = lowered(base, dtype)
    if low is not base:
        scale = scale * rescale(low, base)
    return exponential(x, low, reaches_subnormals(dtype)) * scale


def rescale(base: Float32, other: Float32) -> Float32:
    """exp(base - other) of two finite numbers: the factor from a sum over one base to a sum over another."""
    values = cute.make_rmem_tensor(1, Float32)
    values[0] = base
    return exponential(values.load(), other)[0]


def fraction(base: Float32, other: Float32, total: Float32) -> Float32:
    """exp(base - other) / total of two finite numbers, down to float32's smallest subnormal, rounded only there.

    This scales a part that lies far below the rest of its row. `rescale` ends at 2^-126 and the part's results do not,
    so the exponential is taken of half the distance, twice; total and the part's exponentials are far from either end.
    """
    half = rescale(base * 0.5, other * 0.5)
    return half * cute.arch.rcp_approx(total) * half


@cute.jit
def merge(base: Float32, total: Float32, reduction: Reduction, more: tuple = ()) -> tuple[Float32, Float32]:
    """(reference, sum) of a row from each warp's pair, in one exchange; more: further values that go along."""
    if const_expr(reduction.config.peers > 1):
        reduction.exchange((base, total, *more), 0)
        bases = reduction.gather(0, 0, -math.inf)
        base = reference(warp_reduce(bases.reduce(MAX, -Float32.inf, 0), MAX, reduction.span))
        scaled = reduction.gather(1, 0, 0.0) * exponential(bases, base)
        total = warp_reduce(scaled.reduce(ADD, Float32(0.0), 0), ADD, reduction.reach)
    return base, total
