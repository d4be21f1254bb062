"""softmax of few or very long rows: every row is split over the whole GPU."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from ..htile.compute.online import exponential, normalised, reference, rescale
from ..htile.compute.reduce import ADD, MAX
from ..htile.config import IN_FLIGHT, SplitTileConfig
from ..htile.launch import launch_split, overlap
from ..htile.split import SplitContext, advance, fetch, leave_pair, publish, relay, request, store
from ..htile.types.register import VectorRegTile


class SplitSoftmax:
    """softmax over the rows of x (rows, columns), written to y; a callable for `cute.compile`.

    workspace  int64 (config.workspace_words,), zero before its first launch, for one launch at a time
    """

    def __init__(self, config: SplitTileConfig, pdl: bool = False) -> None:
        self.config = config
        self.pdl = pdl

    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, workspace: cute.Tensor, stream: object) -> None:
        kernel = self.kept if const_expr(self.config.stages) else self.read_twice
        launch_split(kernel(x, y, workspace), self.config, stream, self.pdl)

    @cute.kernel
    def kept(self, x: cute.Tensor, y: cute.Tensor, workspace: cute.Tensor) -> None:
        config = self.config
        overlap(self.pdl)
        context = SplitContext(config, x, y, workspace)
        rows, lag = context.rows, const_expr(config.relay_lag)
        worker, courier = context.is_worker, context.courier
        if worker:
            for row in cutlass.range_constexpr(config.stages):
                request(context, Int32(row))
        for step in cutlass.range(rows + config.lookahead, unroll=1):
            row = step - config.lookahead
            if worker:
                if step < rows:
                    cute.arch.cp_async_wait_group(config.stages - config.lookahead - 1)
                    maximum, total = own_pair(context, step)
                    leave_pair(context, step, maximum, total)
            elif courier == 0:
                if const_expr(lag > 0):
                    if (step >= lag) & (step < rows + lag):
                        relay(context, step - lag)
            else:
                if row >= 0:
                    fetch(context, row)
            cute.arch.sync_threads()
            if worker:
                if row >= 0:
                    write(context, row)
                    request(context, row + config.stages)
            elif (courier == 0) & (step < rows):
                publish(context, step)
        advance(context)

    @cute.kernel
    def read_twice(self, x: cute.Tensor, y: cute.Tensor, workspace: cute.Tensor) -> None:
        overlap(self.pdl)
        context = SplitContext(self.config, x, y, workspace)
        rows = context.rows
        worker, courier = context.is_worker, context.courier
        for row in cutlass.range(rows, unroll=1):
            if worker:
                maximum, total = streamed_pair(context, row)
                leave_pair(context, row, maximum, total)
            cute.arch.sync_threads()
            if not worker:
                if courier == 0:
                    publish(context, row)
                    if const_expr(self.config.team > 1):
                        relay(context, row)
                else:
                    fetch(context, row)
            cute.arch.sync_threads()
            if worker:
                rewrite(context, row)
        advance(context)


@cute.jit
def own_pair(context: SplitContext, row: Int32) -> tuple[Float32, Float32]:
    """(max, sum) of this thread's vectors of a row in shared memory."""
    maximum, total = -Float32.inf, Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        maximum = context.values(row, turn).reduce(MAX, maximum, 0)
    base = reference(maximum)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        total = exponential(context.values(row, turn), base).reduce(ADD, total, 0)
    return maximum, total


@cute.jit
def write(context: SplitContext, row: Int32) -> None:
    """Normalise and store this thread's vectors of a row in shared memory."""
    base, scale = context.totals[0, row % 2], cute.arch.rcp_approx(context.totals[1, row % 2])
    shift = context.shift(row)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        index = context.thread + turn * context.config.threads
        store(context, row, index, shift, normalised(context.values(row, turn), base, scale, context.y.element_type))


@cute.jit
def streamed_pair(context: SplitContext, row: Int32) -> tuple[Float32, Float32]:
    """(max, sum) of this thread's vectors of a row, read a few at a time; the sum is rescaled when the maximum grows."""
    shift = context.shift(row)
    maximum, total = -Float32.inf, Float32(0.0)
    for burst in cutlass.range(context.config.bursts, unroll=1):
        tile = VectorRegTile(context.x.element_type, context.config.vector, IN_FLIGHT)
        load_group(context, row, shift, burst, tile)
        top = maximum
        for turn in cutlass.range_constexpr(IN_FLIGHT):
            top = tile.values(turn).reduce(MAX, top, 0)
        total = total * rescale(reference(maximum), reference(top))
        maximum = top
        for turn in cutlass.range_constexpr(IN_FLIGHT):
            total = exponential(tile.values(turn), reference(maximum)).reduce(ADD, total, 0)
    return maximum, total


@cute.jit
def rewrite(context: SplitContext, row: Int32) -> None:
    """Read this thread's vectors of a row again, the last ones first, which the cache still has; normalise, store."""
    base, scale = context.totals[0, row % 2], cute.arch.rcp_approx(context.totals[1, row % 2])
    bursts, shift = context.config.bursts, context.shift(row)
    for step in cutlass.range(bursts, unroll=1):
        tile = VectorRegTile(context.x.element_type, context.config.vector, IN_FLIGHT)
        load_group(context, row, shift, bursts - 1 - step, tile)
        for turn in cutlass.range_constexpr(IN_FLIGHT):
            index = context.thread + ((bursts - 1 - step) * IN_FLIGHT + turn) * context.config.threads
            store(context, row, index, shift, normalised(tile.values(turn), base, scale, context.y.element_type))


@cute.jit
def load_group(context: SplitContext, row: Int32, shift: Int32, burst: Int32, tile: VectorRegTile) -> None:
    """IN_FLIGHT of this thread's vectors of a row."""
    atom = context.loading.loading()
    for turn in cutlass.range_constexpr(IN_FLIGHT):
        index = context.thread + (burst * IN_FLIGHT + turn) * context.config.threads
        context.load(row, index, shift, atom, tile.vector(turn))
