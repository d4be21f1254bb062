"""Reductions along a row: over the threads of a warp, the warps of a CTA, the CTAs of a cluster.

Every thread of a row ends with the same result, to the bit, and the order of the terms is fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int64, const_expr

from ..config import WARP, ElementwiseTileConfig, ceil_div
from ..utils import store_shared_remote

MAX, ADD = cute.ReductionOp.MAX, cute.ReductionOp.ADD


@dataclass(frozen=True)
class ReduceLayout:
    """The reduction buffer: float32 (width, rows, (warps_per_row, cluster), stage).

    A slot is `width` values that one warp hands to the warps it shares a row with. The slots of a row lie side by side,
    so that one load takes them; stages lie apart, so that no exchange waits for the readers of the one before.
    """

    rows: int
    warps_per_row: int
    cluster: int
    stage: int
    width: int

    @classmethod
    def of(cls, config: ElementwiseTileConfig, stage: int, width: int) -> ReduceLayout:
        return cls(config.rows, config.warps_per_row, config.cluster, stage, width)

    @property
    def slot_bytes(self) -> int:
        return 4 * self.width

    def layout(self) -> cute.Layout:
        shape = (self.width, self.rows, (self.warps_per_row, self.cluster), self.stage)
        return cute.make_ordered_layout(shape, order=(0, 2, 1, 3))


class Reduction:
    """The buffer and the mbarriers of one kernel's exchanges, one mbarrier a stage and only in a cluster."""

    def __init__(self, config: ElementwiseTileConfig, memory: object, stage: int, width: int) -> None:
        self.config = config
        self.shape = ReduceLayout.of(config, stage, width)
        self.buffer = self.barriers = None
        if config.peers > 1:
            self.buffer = memory.allocate_tensor(Float32, self.shape.layout(), byte_alignment=16)
        if config.cluster > 1:
            self.barriers = memory.allocate_array(Int64, stage)

    @cute.jit
    def open(self) -> None:
        """Make the mbarriers ready for one exchange each, and tell the cluster; the first exchange waits for all."""
        if const_expr(self.config.cluster > 1):
            if cute.arch.thread_idx()[0] == 0:
                for stage in cutlass.range_constexpr(self.shape.stage):
                    cute.arch.mbarrier_init(self.barriers + stage, 1)
                cute.arch.mbarrier_init_fence()
                for stage in cutlass.range_constexpr(self.shape.stage):
                    expected = self.config.peers * self.shape.slot_bytes
                    cute.arch.mbarrier_arrive_and_expect_tx(self.barriers + stage, expected)
            cute.arch.cluster_arrive_relaxed()

    @cute.jit
    def exchange(self, values: tuple, stage: cutlass.Constexpr[int]) -> None:
        """Hand this warp's float32 values to every warp of its row, and wait until all of them have."""
        self.send(values, stage)
        self.receive(stage)

    @cute.jit
    def send(self, values: tuple, stage: cutlass.Constexpr[int]) -> None:
        """The first half of an exchange; further ones can be sent before the first is received."""
        config, buffer = self.config, self.buffer
        thread = cute.arch.thread_idx()[0]
        lane = thread % WARP
        row = thread // config.threads_per_row
        slot = thread % config.threads_per_row // WARP
        if const_expr(config.cluster == 1):
            if lane == 0:
                for i in cutlass.range_constexpr(self.shape.width):
                    buffer[i, row, (slot, 0), stage] = values[i]
        else:
            rank = cute.arch.block_idx_in_cluster()
            if const_expr(stage == 0):
                cute.arch.cluster_wait()
            if lane < config.cluster:
                target = self.buffer[None, row, (slot, rank), stage]
                store_shared_remote(target, values, self.barriers + stage, lane)

    @cute.jit
    def receive(self, stage: cutlass.Constexpr[int]) -> None:
        """The second half: wait until every warp of this row has handed over its values."""
        if const_expr(self.config.cluster == 1):
            cute.arch.sync_threads()
        else:
            cute.arch.mbarrier_wait(self.barriers + stage, 0)

    @cute.jit
    def gather(
        self, which: cutlass.Constexpr[int], stage: cutlass.Constexpr[int], absent: cutlass.Constexpr[float]
    ) -> cute.TensorSSA:
        """This thread's part of value number `which` of its row's slots, and `absent` where a part is short.

        Each group of `reach` neighbouring threads holds all slots between them.
        """
        row = cute.arch.thread_idx()[0] // self.config.threads_per_row
        lane = cute.arch.thread_idx()[0] % self.reach
        slots = cute.group_modes(self.buffer[which, row, None, stage], 0)
        peers = const_expr(self.config.peers)
        turns = const_expr(ceil_div(peers, self.reach))
        mine = cute.make_rmem_tensor(turns, Float32)
        mine.fill(Float32(absent))
        for turn in cutlass.range_constexpr(turns):
            if const_expr((turn + 1) * self.reach <= peers):
                mine[turn] = slots[lane + turn * self.reach]
            else:
                if lane + turn * self.reach < peers:
                    mine[turn] = slots[lane + turn * self.reach]
        return mine.load()

    @property
    def reach(self) -> int:
        """Threads over which a gathered value is spread: a power of two."""
        return min(WARP, 1 << (self.config.peers - 1).bit_length())


def combine(a: Float32, b: Float32, operation: cute.ReductionOp) -> Float32:
    """The maximum, which is NaN if one of them is, or the sum."""
    return cute.arch.fmax(a, b, nan=True) if operation is MAX else a + b


def warp_reduce(value: Float32, operation: cute.ReductionOp, group: int) -> Float32:
    """Over `group` neighbouring threads of a warp."""
    return cute.arch.warp_reduction(value, lambda a, b: combine(a, b, operation), threads_in_group=group)


@cute.jit
def row_reduce(
    value: Float32, operation: cutlass.Constexpr, reduction: Reduction, stage: cutlass.Constexpr[int] = 0
) -> Float32:
    """The maximum or the sum of every thread's `value` over a row. Each stage serves once."""
    value = warp_reduce(value, operation, reduction.config.group)
    if const_expr(reduction.config.peers > 1):
        reduction.exchange((value,), stage)
        absent = const_expr(-math.inf if operation is MAX else 0.0)
        mine = reduction.gather(0, stage, absent).reduce(operation, Float32(absent), 0)
        value = warp_reduce(mine, operation, reduction.reach)
    return value
