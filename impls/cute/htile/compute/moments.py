"""The mean of a row and its mean square distance from it, in one exchange.

A part of a row is described by (sum, square, count): the sum of its values, the sum of their squared distances from the
part's own mean, and how many they are. Parts with means m_i merge into a whole with mean m as

    sum = Σ sum_i        square = Σ square_i + Σ count_i · (m_i - m)²

(Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979), which loses
nothing where the mean is large against the deviation, as mean(t²) - mean² would.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from .reduce import ADD, Reduction, warp_reduce

WIDTH = 4  # values of an exchange, of which three count: slots are powers of two


def part_mean(total: Float32, count: Float32) -> Float32:
    """The mean of a part, and 0 of one without values."""
    return total / cute.arch.fmax(count, 1.0)


def send(part: tuple[Float32, Float32, Float32], reduction: Reduction, stage: int = 0) -> None:
    """Hand a warp's (sum, square, count) to the warps of its row, if there are others."""
    if reduction.config.peers > 1:
        reduction.send((*part, Float32(0.0)), stage)


@cute.jit
def merge(
    part: tuple[Float32, Float32, Float32], reduction: Reduction, columns: int, stage: cutlass.Constexpr[int] = 0
) -> tuple[Float32, Float32]:
    """(mean, mean square distance from it) of a row of `columns` values, of which this warp has sent a part."""
    total, square, _ = part
    mean = total * (1 / columns)
    if const_expr(reduction.config.peers > 1):
        reduction.receive(stage)
        totals, squares, counts = (reduction.gather(which, stage, 0.0) for which in range(3))
        mean = warp_reduce(totals.reduce(ADD, Float32(0.0), 0), ADD, reduction.reach) * (1 / columns)
        square = Float32(0.0)
        for slot in cutlass.range_constexpr(cute.size(totals.shape)):
            apart = part_mean(totals[slot], counts[slot]) - mean
            square = square + squares[slot] + counts[slot] * apart * apart
        square = warp_reduce(square, ADD, reduction.reach)
    return mean, square * (1 / columns)
