"""The gradient of softmax over few or very long rows: every row is split over the whole GPU."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from ..htile.crews import SplitTileConfig
from ..htile.launch import launch_split
from ..htile.merges import Sums
from ..htile.reduce import ADD
from ..htile.registers import VectorRegTile
from ..htile.ring import flow
from ..htile.split import SplitContext


class SplitSoftmaxBackward:
    """dx = (dy - sum(dy * y)) * y, as `softmax_backward.SoftmaxBackward`, through a ring in shared memory.

    Rows of dy and y start as far behind a vector's boundary. workspace: as in `split_softmax.SplitSoftmax`.
    """

    def __init__(self, config: SplitTileConfig):
        self.config = config

    @cute.jit
    def __call__(self, dy: cute.Tensor, y: cute.Tensor, dx: cute.Tensor, workspace: cute.Tensor, stream):
        launch_split(self.kernel(dy, y, dx, workspace), self.config, stream)

    @cute.kernel
    def kernel(self, dy: cute.Tensor, y: cute.Tensor, dx: cute.Tensor, workspace: cute.Tensor):
        flow(SplitContext(self.config, dy, dx, workspace, (y,), 0.0, Sums), own_pair, gradient)


@cute.jit
def own_pair(context: SplitContext, tiles: list[VectorRegTile], row: Int32, thread: Int32) -> tuple[Float32, Float32]:
    """(0, sum) of this warp's vectors of a row."""
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        total = (tiles[0].values(turn) * tiles[1].values(turn)).reduce(ADD, total, 0)
    return context.merge.over_warp(None, Float32(0.0), total)


def gradient(context: SplitContext, tiles: list[VectorRegTile], turn: int, pair: tuple[Float32, Float32], place: tuple):
    """Vector number `turn` of this thread, from the row's `totals`."""
    return (tiles[0].values_again(turn) - pair[1]) * tiles[1].values_again(turn)
