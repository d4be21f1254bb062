"""Softmax of each segment of a row: load -> segments of warps -> of the CTA -> of the cluster -> normalise -> store.

A warp has 32 neighbouring vectors per turn: a unit. It settles the segments that start and end there, and leaves a (maximum, sum)
pair of the first one and of the last. A warp joins the units of its CTA and, by one exchange, the CTAs of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr

from ..htile.config import WARP, RowTileConfig, ceil_div
from ..htile.launch import launch_rows, overlap
from ..htile.online import LIFT, LOWEST, exponential, fraction, reaches_subnormals
from ..htile.reduce import ADD, MAX, top, warp_reduce
from ..htile.registers import rounded
from ..htile.rows import RowContext, RowStorer
from ..htile.segments import NOTHING, Joined, Marks, Segments, larger, pick, plus


class RaggedSoftmax:
    """y = softmax of each segment of x, both (rows, columns); a segment ends before a column of `ends` (rows, segments) int64."""

    def __init__(self, config: RowTileConfig, segments: int):
        self.config, self.segments = config, segments

    @cute.jit
    def __call__(self, x: cute.Tensor, ends: cute.Tensor, y: cute.Tensor, stream):
        launch_rows(self.kernel(x, ends, y), self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor, ends: cute.Tensor, y: cute.Tensor):
        overlap()
        row = Row(self.config, x, ends, y, self.segments)
        row.context.x.request()
        row.marks.bring()
        row.context.x.wait()
        for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
            row.begin(turn)
        row.settle()
        for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
            row.store(turn)


class Row:
    """A thread's part of a row, which its CTA or cluster has alone.

    units   in shared memory: the part of each unit, then a factor in the place of each maximum
    tile    exponentials over the maximum of their segment in their unit
    limits  of each vector, the two of `Segments.open`
    """

    def __init__(self, config: RowTileConfig, x: cute.Tensor, ends: cute.Tensor, y: cute.Tensor, segments: int):
        self.config = config
        self.context = RowContext(config, x, -Float32.inf, width=4, is_led=True)
        self.marks, self.out = Marks(self.context, ends, segments), RowStorer(self.context, y)
        self.warp, self.lane = self.context.tidx // WARP, cute.arch.lane_idx()
        self.count = config.vectors_per_thread * config.warps_per_row
        layout = cute.make_ordered_layout((4, self.count), order=(0, 1))
        self.units = cutlass.memory.SmemAllocator().allocate_tensor(Float32, layout, byte_alignment=16)
        self.tile, self.limits = self.context.make_fragment(Float32), cute.make_rmem_tensor(config.vectors_per_thread, Int32)

    def powers(self, values: cute.TensorSSA, base: Float32 | cute.TensorSSA) -> cute.TensorSSA:
        """As `lowered` says, with all sums over lowered bases."""
        dtype = self.out.dtype
        return exponential(values, base, reaches_subnormals(dtype), LIFT if dtype is BFloat16 else 0.0)

    @cute.jit
    def begin(self, turn: cutlass.Constexpr[int]):
        """Vector number `turn` becomes exponentials; its unit leaves a part."""
        self.segments = Segments(lambda: self.marks.bits(turn), self.config.vector)
        if self.segments.lanes == 0:
            self.whole(turn)
        else:
            self.split(turn)

    @cute.jit
    def whole(self, turn: cutlass.Constexpr[int]):
        """The unit lies in one segment."""
        values, limits, count = self.context.x.values(turn), self.limits, self.config.vector
        limits[turn] = Int32(count * WARP + count)
        base = top(values.reduce(MAX, Float32(LOWEST), 0))
        powers = self.powers(values, base)
        self.tile.vector(turn).store(powers)
        total = warp_reduce(powers.reduce(ADD, Float32(0.0), 0), ADD, WARP)
        self.leave(turn, 0, base, total)
        self.leave(turn, 2, Float32(NOTHING[2]), Float32(NOTHING[3]))

    @cute.jit
    def split(self, turn: cutlass.Constexpr[int]):
        count, segments, limits, tile = const_expr(self.config.vector), self.segments, self.limits, self.tile.vector(turn)
        values, bases = rounded(self.context.x.values(turn), Float32), cute.make_rmem_tensor(count, Float32)
        peaks, *ends = segments.reduce([values[i] for i in range(count)], larger, LOWEST)
        for i in cutlass.range_constexpr(count):
            bases[i] = peaks[i]
        tile.store(self.powers(values.load(), bases.load()))
        totals, *sums = segments.reduce([tile[i] for i in range(count)], plus, 0.0)
        upto, since = segments.open()
        limits[turn] = since * WARP + upto
        if upto < since:
            for i in cutlass.range_constexpr(count):
                scaled = tile[i] * cute.arch.rcp_approx(totals[i])
                tile[i] = pick((upto <= i) & (i < since), scaled, tile[i])
        self.leave(turn, 0, ends[0], sums[0])
        self.leave(turn, 2, ends[1], sums[1])

    @cute.jit
    def leave(self, turn: cutlass.Constexpr[int], place: cutlass.Constexpr[int], base: Float32, total: Float32):
        units, unit = self.units, self.warp + turn * self.config.warps_per_row
        if self.lane == (0 if const_expr(place == 0) else WARP - 1):
            units[place, unit], units[place + 1, unit] = base, total

    @cute.jit
    def settle(self):
        """Bring the factors of all units."""
        if const_expr(self.config.cluster > 1):
            cute.arch.cluster_wait()
        cute.arch.sync_threads()
        if self.warp == 0:
            self.join()
        cute.arch.sync_threads()

    @cute.jit
    def join(self):
        config, units, each = self.config, self.units, const_expr(ceil_div(self.count, WARP))
        numbers = [self.lane * each + i for i in range(each)]
        joined = Joined([part(lambda k, n: units[k, n], number, self.count) for number in numbers])
        if const_expr(config.cluster > 1):
            reduction = self.context.reduction
            reduction.post(joined.whole(), 0)
            reduction.receive(0)
            others = part(lambda k, n: reduction.buffer[k, 0, (0, n), 0], self.lane, config.cluster)
            joined.settle(Joined([others]), cute.arch.block_idx_in_cluster())
        for i in cutlass.range_constexpr(2 * each):
            factor, number = fraction(joined.bases[i], joined.peaks[i], joined.sums[i]), numbers[i // 2]
            if number < self.count:
                units[i % 2 * 2, number] = factor

    @cute.jit
    def store(self, turn: cutlass.Constexpr[int]):
        count, unit, vector = const_expr(self.config.vector), self.warp + turn * self.config.warps_per_row, self.tile.vector(turn)
        word, first, last = self.limits[turn], self.units[0, unit], self.units[2, unit]
        upto, since = word & WARP - 1, word >> 5
        factor = pick(upto == count, first, pick(since == 0, last, Float32(1.0)))
        if (upto < count) & (since > 0):
            for i in cutlass.range_constexpr(count):
                vector[i] = vector[i] * pick(upto > i, first, pick(since <= i, last, Float32(1.0)))
        self.out.store(turn, vector.load() * factor)


def part(read: Callable[[int, Int32], Float32], number: Int32, count: int) -> list:
    """One of `count` parts, or of nothing; read: value `k` of part `n`."""
    near = cutlass.min(number, Int32(count - 1))
    return [pick(number < count, read(k, near), Float32(NOTHING[k])) for k in range(4)]
