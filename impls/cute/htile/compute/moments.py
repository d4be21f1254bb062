"""The mean of a row and its mean square distance from it, in one exchange.

A part of a row is described by (sum, square, count, rest): the sum of its values, the sums of their squared distances and
of their distances from the part's own mean, and how many they are. Parts with means m_i merge into a whole with mean m as

    sum = Σ sum_i        square = Σ square_i + Σ (m_i - m) · (count_i · (m_i - m) + 2 rest_i)

(Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979), which loses
nothing where the mean is large against the deviation, as mean(t²) - mean² would. A rest is 0 but for what m_i is off by.
Where parts differ, that changes the square more than anything else does: 1e-5 of it for float32 values around 1e4. Values of
16 bits are themselves off by more, and what is divided by the deviation is off by what the mean is.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from .reduce import ADD, Reduction, warp_reduce

WIDTH = 4  # values of an exchange

Part = tuple[Float32, Float32, Float32, Float32]


def part_mean(total: Float32, count: Float32) -> Float32:
    """The mean of a part, and 0 of one without values."""
    return total / cute.arch.fmax(count, 1.0)


def send(part: Part, reduction: Reduction, stage: int = 0) -> None:
    """Hand a warp's part to the warps of its row, if there are others."""
    if reduction.config.peers > 1:
        reduction.send(part, stage)


@cute.jit
def merge(
    part: Part,
    reduction: Reduction,
    columns: int,
    stage: cutlass.Constexpr[int] = 0,
    exact: cutlass.Constexpr[bool] = False,
) -> tuple[Float32, Float32]:
    """(mean, mean square distance from it) of a row of `columns` values, of which this warp has sent a part.

    exact  the parts have rests
    """
    total, square, _, _ = part
    mean = total * (1 / columns)
    if const_expr(reduction.config.peers > 1):
        reduction.receive(stage)
        totals, squares, counts = (reduction.gather(which, stage, 0.0) for which in range(3))
        mean = warp_reduce(totals.reduce(ADD, Float32(0.0), 0), ADD, reduction.reach) * (1 / columns)
        rests = reduction.gather(3, stage, 0.0) if exact else None
        square = Float32(0.0)
        for slot in cutlass.range_constexpr(cute.size(totals.shape)):
            apart = part_mean(totals[slot], counts[slot]) - mean
            moved = counts[slot] * apart
            if const_expr(exact):
                moved = moved + 2.0 * rests[slot]
            square = square + squares[slot] + moved * apart
        square = warp_reduce(square, ADD, reduction.reach)
    return mean, square * (1 / columns)
