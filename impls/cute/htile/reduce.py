"""Reductions along a row: over the threads of a warp, the warps of a CTA, the CTAs of a cluster.

All threads of a row get the same result, to the bit, and the order of the terms is fixed.
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from .config import WARP, RowTileConfig, ceil_div, power
from .lists import Keys, bits, number

MAX, ADD = cute.ReductionOp.MAX, cute.ReductionOp.ADD


class Reduction:
    """The buffer and the mbarriers of one kernel's exchanges; one mbarrier per stage, and only in a cluster.

    buffer  float32 (width, rows, (warps_per_row, cluster), stage). A slot is `width` values that one warp sends to the
            warps of its row. The slots of a row are neighbours, so one load takes them; each stage has slots of its own,
            so no exchange waits for the readers of the previous one
    """

    def __init__(self, config: RowTileConfig, memory, stage: int, width: int):
        self.config, self.stage, self.width = config, stage, width
        self.buffer = self.barriers = self.there = None
        if config.peers > 1:
            shape = (width, config.rows, (config.warps_per_row, config.cluster), stage)
            layout = cute.make_ordered_layout(shape, order=(0, 2, 1, 3))
            self.buffer = memory.allocate_tensor(Float32, layout, byte_alignment=16)
        if config.cluster > 1:
            self.barriers = memory.allocate_array(Int64, stage)

    @cute.jit
    def open(self):
        """Prepare the mbarriers for one exchange each and signal the cluster; the first exchange waits for all CTAs."""
        if const_expr(self.config.cluster > 1):
            if cute.arch.thread_idx()[0] == 0:
                for stage in cutlass.range_constexpr(self.stage):
                    cute.arch.mbarrier_init(self.barriers + stage, 1)
                cute.arch.mbarrier_init_fence()
                for stage in cutlass.range_constexpr(self.stage):
                    expected = self.config.peers * 4 * self.width
                    cute.arch.mbarrier_arrive_and_expect_tx(self.barriers + stage, expected)
            cute.arch.cluster_arrive_relaxed()
        self.prepare()

    def prepare(self):
        """Where this lane sends its warp's values in the first exchange: found before they are there, and kept in registers."""
        if self.config.quick and self.config.cluster > 1:
            thread, rank = cute.arch.thread_idx()[0], cute.arch.block_idx_in_cluster()
            target = self.buffer[None, 0, (thread // WARP, rank), 0]
            self.there = mapped(target, self.barriers, thread % WARP)

    @cute.jit
    def exchange(self, values: tuple, stage: cutlass.Constexpr[int]):
        """Send this warp's float32 values to every warp of its row, and wait for theirs."""
        self.send(values, stage)
        self.receive(stage)

    def send(self, values: tuple, stage: int):
        """The first half of an exchange; several can be sent before the first is received."""
        self.post(values, stage, stage == 0)

    @cute.jit
    def post(self, values: tuple, stage: int | Int32, is_first: cutlass.Constexpr[bool] = False):
        """`send`; is_first: wait until every CTA of the cluster is there."""
        config, buffer = self.config, self.buffer
        thread = cute.arch.thread_idx()[0]
        lane = thread % WARP
        row = thread // config.threads_per_row
        slot = thread % config.threads_per_row // WARP
        if const_expr(config.cluster == 1):
            if lane == 0:
                for i in cutlass.range_constexpr(self.width):
                    buffer[i, row, (slot, 0), stage] = values[i]
        else:
            rank = cute.arch.block_idx_in_cluster()
            if const_expr(is_first):
                cute.arch.cluster_wait()
            if lane < config.cluster:
                if const_expr(self.there is not None and is_first):
                    send(self.there, values)
                else:
                    target = self.buffer[None, row, (slot, rank), stage]
                    store_shared_remote(target, values, self.barriers + stage, lane)

    @cute.jit
    def receive(self, stage: int | Int32, phase: int | Int32 = 0):
        """The second half: wait until every warp of this row has sent its values; phase: of the stage's mbarrier."""
        if const_expr(self.config.cluster == 1):
            cute.arch.sync_threads()
        else:
            cute.arch.mbarrier_wait(self.barriers + stage, phase)

    @cute.jit
    def renew(self, stage: int | Int32):
        """Prepare a stage, whose exchange this thread has received, for one more exchange."""
        if const_expr(self.config.cluster > 1):
            if cute.arch.thread_idx()[0] == 0:
                expected = self.config.peers * 4 * self.width
                cute.arch.mbarrier_arrive_and_expect_tx(self.barriers + stage, expected)

    @cute.jit
    def gather(self, which: cutlass.Constexpr[int], stage: int | Int32, absent: cutlass.Constexpr[float]) -> cute.TensorSSA:
        """This thread's part of value number `which` of its row's slots, padded with `absent`.

        Each group of `reach` neighbouring threads holds all slots.
        """
        row = cute.arch.thread_idx()[0] // self.config.threads_per_row
        lane = cute.arch.thread_idx()[0] % self.reach
        slots = cute.group_modes(self.buffer[which, row, None, stage], 0)
        peers, turns = const_expr(self.config.peers), const_expr(self.turns)
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
    def span(self) -> int:
        """Threads of a warp that hold a row's slots, some of them more than once: a maximum may go over all, a sum may not."""
        return WARP if self.config.threads_per_row >= WARP else self.reach

    @property
    def reach(self) -> int:
        """Threads over which a gathered value is spread: a power of two."""
        return min(WARP, power(self.config.peers))

    @property
    def turns(self) -> int:
        """Slots that a thread gathers at most."""
        return ceil_div(self.config.peers, self.reach)


def mapped(target: cute.Tensor, barrier: cute.Pointer, rank: Int32) -> tuple[Int32, Int32]:
    """The addresses of a place in shared memory and of an mbarrier, in CTA `rank` of the cluster."""
    text = "mapa.shared::cluster.u32 {$w0}, {$r0}, {$r2}; mapa.shared::cluster.u32 {$w1}, {$r1}, {$r2};"
    asked = [target.iterator.toint(), barrier.toint(), rank]
    return cute.arch.inline_ptx(text, write_only_types=[Int32, Int32], read_only_args=asked)


def send(there: tuple[Int32, Int32], values: tuple[Float32, ...]):
    """`store_shared_remote` to `mapped` addresses, of 2 or 4 values."""
    names = ", ".join(f"{{$r{i + 2}}}" for i in range(len(values)))
    text = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v{len(values)}.b32 [{{$r0}}], {{{names}}}, [{{$r1}}];"
    cute.arch.inline_ptx(text, read_only_args=[*there, *(value.bitcast(Int32) for value in values)])


def store_shared_remote(target: cute.Tensor, values: tuple[Float32, ...], barrier: cute.Pointer, rank: Int32):
    """Store 1, 2 or 4 float32 values in CTA `rank` of the cluster, where `target` is in this CTA's shared memory.

    The mbarrier at `barrier` of that CTA counts the bytes as they arrive.
    """
    pointer = target.iterator.align(4 * len(values))
    bits = tuple(value.bitcast(Int32) for value in values)
    cute.arch.store_async_dsmem(pointer, bits if len(bits) > 1 else bits[0], barrier, rank)


def warp_reduce(value: Float32, operation: cute.ReductionOp, group: int) -> Float32:
    """The sum, or the maximum (NaN if a value is NaN), over `group` neighbouring threads of a warp."""

    if operation is MAX and group == WARP:
        return top(value)

    def combine(a: Float32, b: Float32) -> Float32:
        return cute.arch.fmax(a, b, nan=True) if operation is MAX else a + b

    return cute.arch.warp_reduction(value, combine, threads_in_group=group)


def top(value: Float32) -> Float32:
    """A warp's largest value, or NaN if one is: one instruction, between bits that are integers in the same order."""
    keys = Keys(Float32)
    key = keys.flipped(keys.known(bits(Float32(value), Float32)))
    return number(keys.flipped(cute.arch.warp_redux_sync(key, "max")), Float32)


@cute.jit
def row_reduce(value: Float32, operation: cutlass.Constexpr, reduction: Reduction, stage: cutlass.Constexpr[int] = 0) -> Float32:
    """The maximum or the sum of every thread's `value` over a row. Each stage serves once."""
    value = warp_reduce(value, operation, reduction.config.group)
    if const_expr(reduction.config.peers > 1):
        reduction.exchange((value,), stage)
        absent = const_expr(-math.inf if operation is MAX else 0.0)
        mine = reduction.gather(0, stage, absent).reduce(operation, Float32(absent), 0)
        value = warp_reduce(mine, operation, reduction.span if operation is MAX else reduction.reach)
    return value
