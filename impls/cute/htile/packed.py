"""What a kernel of packed rows does before and after its arithmetic: a CTA's stretch of each matrix, and a thread's units.

A stretch is overwritten row by row with the result; a thread overwrites only what it has read itself.
"""

from __future__ import annotations

from collections.abc import Callable

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from . import copy
from .config import VECTOR_BYTES
from .packing import STRETCH_ALIGN, PackedTileConfig
from .reduce import Reduction, row_reduce
from .registers import VectorRegTile, rounded, where, widened


class PackedContext:
    """One thread's part of a CTA's dense rows of matrices like mX (rows, columns).

    stage  exchanges of the kernel's reductions
    """

    def __init__(self, config: PackedTileConfig, mX: cute.Tensor, stage: int = 1):
        self.config = config
        self.thread = cute.arch.thread_idx()[0]
        self.lane = self.thread % config.threads_per_row
        self.first = cute.arch.block_idx()[0] * config.rows
        self.rows = Int32(cutlass.min(config.rows, mX.shape[0] - self.first))
        self.policy = copy.retaining_policy(Int64(mX.shape[0]), config.columns * config.itemsize)
        self.memory = cutlass.memory.SmemAllocator()
        self.barrier = self.memory.allocate_array(Int64, 1)
        self.reduction = Reduction(config, self.memory, stage, 1)

    def stretch(self, matrix: cute.Tensor) -> Stretch:
        size, lead, vector = self.config.stretch, 0, VECTOR_BYTES * 8 // matrix.element_type.width
        if vector > self.config.vector:
            size, lead = size + vector, self.first * self.config.columns & (vector - 1)
        tile = self.memory.allocate_tensor(matrix.element_type, cute.make_layout(size), byte_alignment=STRETCH_ALIGN)
        return Stretch(self, tile, self.place(matrix) - lead, lead)

    def place(self, matrix: cute.Tensor) -> cute.Pointer:
        """Where the CTA's rows of a matrix begin, on 16 bytes if its elements are those of the layout."""
        return matrix.iterator + Int64(self.first) * self.config.columns

    def columns(self, vector: cute.Tensor | None) -> VectorRegTile | None:
        """This thread's units of a vector of one value per column, which all rows share."""
        if vector is None:
            return None
        units = Units(self, vector.iterator + self.lane * self.config.unit, vector.element_type, 0.0)
        return held(self.config, lambda turn: units.read(turn).load(), units.dtype)

    def row(self, number: Int32) -> Int32:
        """The row in the CTA that this thread has in pass `number`."""
        return self.config.row(number * self.config.groups + self.thread // self.config.threads_per_row)

    @cute.jit
    def store_row(self, vector: cute.Tensor | None, row: Int32, value: Float32):
        """Write a value that all threads of a row share to (rows,) float32, if there is such a vector."""
        if const_expr(vector is not None):
            if (self.lane == 0) & (row < self.rows):
                vector[self.first + row] = value


class Stretch:
    """A CTA's rows of one matrix in shared memory; `start` is their place in global memory.

    lead  elements of the row before, from the last 16-byte boundary: only of elements smaller than the layout's
    """

    def __init__(self, context: PackedContext, tile: cute.Tensor, start: cute.Pointer, lead: Int32 | int):
        self.context, self.tile, self.start, self.lead = context, tile, start, lead
        self.dtype, self.vector = tile.element_type, VECTOR_BYTES * 8 // tile.element_type.width
        self.end = lead + context.rows * context.config.columns
        self.whole = Int32(self.end // self.vector)

    @cute.jit
    def bring(self):
        """Request the whole vectors; one thread calls this."""
        size = self.whole * VECTOR_BYTES
        if size > 0:
            copy.bulk_copy(self.start, self.tile.iterator, size, self.context.barrier, self.context.policy)

    @cute.jit
    def write(self, matrix: cute.Tensor):
        """Request the way back of the whole vectors, to the same place of another matrix; one thread calls this."""
        target, source = self.context.place(matrix).toint(), self.tile.iterator.toint()
        size = self.whole * VECTOR_BYTES
        if size > 0:
            cute.arch.inline_ptx(
                "cp.async.bulk.global.shared::cta.bulk_group [{$r0}], [{$r1}], {$r2};", read_only_args=[target, source, size]
            )

    @cute.jit
    def bring_rest(self):
        """The elements behind the last whole vector; all threads call this."""
        self._rest(cute.make_tensor(self.start, self.tile.layout), self.tile)

    @cute.jit
    def write_rest(self, matrix: cute.Tensor):
        self._rest(self.tile, cute.make_tensor(self.context.place(matrix), self.tile.layout))

    @cute.jit
    def _rest(self, source: cute.Tensor, target: cute.Tensor):
        element = self.whole * self.vector + self.context.thread
        if element < self.end:
            target[element] = source[element]

    def units(self, row: Int32, fill: float = 0.0) -> Units:
        """This thread's units of a row of the CTA."""
        config = self.context.config
        first = self.lead + row * config.columns + self.context.lane * config.unit
        return Units(self.context, self.tile.iterator + first, self.dtype, fill)


class Units:
    """A thread's units of a row, or of a vector of one value per column, by their number.

    fill  the value of units that the row does not have
    """

    def __init__(self, context: PackedContext, start: cute.Pointer, dtype: type[cutlass.Numeric], fill: float):
        self.context, self.config, self.start, self.dtype, self.fill = context, context.config, start, dtype, fill

    def _at(self, offset) -> cute.Tensor:
        bytes_ = self.config.unit * self.dtype.width // 8
        pointer = (self.start + offset).align(min(VECTOR_BYTES, bytes_))
        return cute.make_tensor(pointer, cute.make_layout(self.config.unit))

    def has(self, turn: int):
        """Whether the row has this thread's unit number `turn`."""
        return self.context.lane + turn * self.config.threads_per_row < self.config.units

    def read(self, turn: int) -> cute.Tensor:
        """Unit number `turn` as it is; where the row does not have it, this thread's first one, or else the row's."""
        offset = turn * (self.config.threads_per_row * self.config.unit)
        if not self.config.is_inner(turn):
            other = Int32(0) if turn else -self.context.lane * self.config.unit
            offset = cutlass.select_(self.has(turn), Int32(offset), other)
        kept = cute.make_rmem_tensor(self.config.unit, self.dtype)
        cute.autovec_copy(self._at(offset), kept)
        return kept

    def values(self, turn: int) -> cute.TensorSSA:
        """Unit number `turn` as float32."""
        return self.masked(turn, widened(self.read(turn)), self.fill)

    def masked(self, turn: int, values: cute.TensorSSA, absent: float = 0.0) -> cute.TensorSSA:
        """Values of unit number `turn`, with `absent` where the row does not have it."""
        if self.config.is_inner(turn):
            return values
        return where(values, lambda _: self.has(turn), absent)

    @cute.jit
    def store(self, turn: cutlass.Constexpr[int], values: cute.TensorSSA):
        """Round float32 values to unit number `turn`, if the row has it."""
        offset = turn * (self.config.threads_per_row * self.config.unit)
        if const_expr(self.config.is_inner(turn)):
            cute.autovec_copy(rounded(values, self.dtype), self._at(offset))
        else:
            if self.has(turn):
                cute.autovec_copy(rounded(values, self.dtype), self._at(offset))


def held(config: PackedTileConfig, values: Callable[[int], cute.TensorSSA], dtype=Float32) -> VectorRegTile:
    """Values of a thread's units, each `values(number)`, in registers."""
    tile = VectorRegTile(dtype, config.unit, config.turns)
    for turn in range(config.turns):
        tile.vector(turn).store(values(turn))
    return tile


@cute.jit
def fold(
    context: PackedContext, of: cutlass.Constexpr, operation: cutlass.Constexpr, start: Float32, stage: cutlass.Constexpr[int] = 0
) -> Float32:
    """The sum or the maximum over a row of the values `of(number)` of every unit."""
    config, result = context.config, start
    for turn in cutlass.range_constexpr(config.turns):
        result = of(turn).reduce(operation, result, 0)
    if const_expr(config.peers > 1 and config.passes > 1):
        cute.arch.sync_threads()  # all have taken what the row before left in the buffer
    return row_reduce(result, operation, context.reduction, stage)


def bring(context: PackedContext, stretches: tuple):
    """Return when the CTA's rows of some matrices are in shared memory."""
    request(context, stretches)
    arrive(context)


@cute.jit
def request(context: PackedContext, stretches: tuple):
    """The first half of `bring`; what else is read is requested between them."""
    if context.thread == 0:
        request_whole(context, stretches)
    for stretch in stretches:
        stretch.bring_rest()


@cute.jit
def request_whole(context: PackedContext, stretches: tuple):
    """Request the whole vectors of some stretches; one thread calls this."""
    cute.arch.mbarrier_init(context.barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.mbarrier_arrive_and_expect_tx(context.barrier, sum(stretch.whole for stretch in stretches) * VECTOR_BYTES)
    for stretch in stretches:
        stretch.bring()


def arrive(context: PackedContext):
    """The second half."""
    cute.arch.sync_threads()
    cute.arch.mbarrier_wait(context.barrier, 0)


@cute.jit
def write(context: PackedContext, stretches: tuple, matrices: tuple):
    """Write the CTA's rows, which lie where those of the inputs lay."""
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()
    for stretch, matrix in zip(stretches, matrices, strict=True):
        stretch.write_rest(matrix)
    if context.thread == 0:
        send(stretches, matrices)


@cute.jit
def send(stretches: tuple, matrices: tuple):
    """Write the whole vectors, and wait until they have left shared memory; one thread calls this."""
    for stretch, matrix in zip(stretches, matrices, strict=True):
        stretch.write(matrix)
    cute.arch.cp_async_bulk_commit_group()
    cute.arch.cp_async_bulk_wait_group(0, read=True)
