"""What a kernel does whose threads keep their columns from row to row: rows, a ring of loads, stores, sums over rows.

A thread reads from the ring only what it has itself brought there, so no barrier separates the two.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from . import copy
from .config import VECTOR_BYTES
from .reduce import ADD, Reduction, warp_reduce
from .registers import VectorRegTile, rounded, widened
from .strips import StripConfig


class Strip:
    """One thread's columns of matrices of `rows` rows, and the rows of its CTA or cluster, by their number.

    heads  rows that are `heads` apart have the same weights; a CTA has only such rows
    width  values of an exchange
    """

    def __init__(self, config: StripConfig, rows: Int32, heads: Int32 | int, width: int):
        self.config, self.heads = config, heads
        self.thread = cute.arch.thread_idx()[0]
        self.lane = self.thread % config.threads_per_row
        self.rank = cute.arch.block_idx()[1] if config.cluster > 1 else 0
        cta, ctas = cute.arch.block_idx()[0], cute.arch.grid_dim()[0]
        self.head, self.block, self.blocks = cta % heads, cta // heads, ctas // heads
        self.rows = rows // heads
        tiles = (self.rows + config.rows - 1) // config.rows
        self.count = (tiles - self.block + self.blocks - 1) // self.blocks
        self.memory = cutlass.memory.SmemAllocator()
        self.reduction = Reduction(config, self.memory, 2, width)

    def place(self, number: Int32) -> Int32:
        """The number of this thread's row among those of its head."""
        return (self.block + number * self.blocks) * self.config.rows + self.thread // self.config.threads_per_row

    def row(self, number: Int32) -> Int32:
        """The row of the matrices, one that exists."""
        return cutlass.min(self.place(number), self.rows - 1) * self.heads + self.head

    def has(self, turn: int):
        """Whether the row has this thread's vector number `turn`."""
        if self.config.is_inner(turn):
            return True
        index = self.lane + turn * self.config.threads_per_row
        return (index < self.config.cta_vectors) & (index + self.rank * self.config.cta_vectors < self.config.vectors)

    def counted(self, turn: int, value: Float32) -> Float32:
        """A value of vector number `turn`; 0 if the row does not have it."""
        has = self.has(turn)
        return value if has is True else cutlass.select_(has, value, Float32(0.0))

    def column(self, turn: int) -> Int32:
        """The first column of vector number `turn`."""
        index = self.rank * self.config.cta_vectors + self.lane + turn * self.config.threads_per_row
        return index * self.config.vector

    def vector(self, start: cute.Pointer, turn: int) -> cute.Tensor:
        """Vector number `turn` of a row that starts at a pointer."""
        bytes_ = self.config.vector * start.dtype.width // 8
        pointer = (start + self.column(turn)).align(min(VECTOR_BYTES, bytes_))
        return cute.make_tensor(pointer, cute.make_layout(self.config.vector))

    def tile(self, dtype: type[cutlass.Numeric]) -> VectorRegTile:
        """Registers for this thread's vectors, all 0."""
        tile = VectorRegTile(dtype, self.config.vector, self.config.turns)
        tile.tensor.fill(dtype(0))
        return tile

    @cute.jit
    def columns(self, vectors: cute.Tensor | None) -> VectorRegTile | None:
        """This thread's part of (columns,), or of its head's row of (heads, columns), in registers."""
        tile = None
        if const_expr(vectors is not None):
            tile = self.tile(vectors.element_type)
            start = vectors.iterator
            if const_expr(cute.rank(vectors) == 2):
                start = start + Int64(self.head) * vectors.stride[0]
            for turn in cutlass.range_constexpr(self.config.turns):
                source, target = self.vector(start, turn), tile.vector(turn)
                if self.has(turn):
                    cute.autovec_copy(source, target)
        return tile

    @cute.jit
    def request(self, loaders: list, number: Int32):
        """Request row `number` of some matrices, if there is one, as one group."""
        if number < self.count:
            for loader in loaders:
                loader.request(number)
        if const_expr(self.config.stages > 1):
            cute.arch.cp_async_commit_group()

    @cute.jit
    def wait(self):
        """Return when the oldest of the rows under way is here."""
        if const_expr(self.config.stages > 1):
            cute.arch.cp_async_wait_group(self.config.ahead)

    def begin(self, values: tuple, number: Int32) -> tuple:
        """Reduce some values in the warp and send them to those that share row `number`; exchanges alternate between two stages."""
        values = tuple(warp_reduce(value, ADD, self.config.group) for value in values)
        if self.config.peers > 1:
            self.reduction.post(values, number % 2)
        return values

    @cute.jit
    def end(self, values: tuple, number: Int32) -> tuple:
        """The sums over the row of what `begin` was given; every thread has begun no other row since."""
        if const_expr(self.config.peers > 1):
            reduction, stage = self.reduction, number % 2
            reduction.receive(stage, number // 2 % 2)
            reduction.renew(stage)
            parts = [reduction.gather(i, stage, 0.0).reduce(ADD, Float32(0.0), 0) for i in range(len(values))]
            values = tuple(warp_reduce(part, ADD, reduction.reach) for part in parts)
        return values

    @cute.jit
    def store(self, matrix: cute.Tensor, turn: cutlass.Constexpr[int], number: Int32, values: cute.TensorSSA):
        """Round float32 values to vector number `turn` of row `number` of a matrix, where it has that."""
        start = matrix.iterator + Int64(self.row(number)) * matrix.stride[0]
        source, target = rounded(values, matrix.element_type), self.vector(start, turn)
        if const_expr(self.config.rows == 1 and self.config.is_inner(turn)):
            cute.autovec_copy(source, target)
        else:
            if (self.place(number) < self.rows) & self.has(turn):
                cute.autovec_copy(source, target)

    @cute.jit
    def store_sums(self, sums: tuple, outputs: tuple):
        """Each tile of sums over this thread's rows, added up over the CTA's rows, to (blocks, heads, columns) float32."""
        config = self.config
        for tile, output in zip(sums, outputs, strict=True):
            start = output.iterator + (Int64(self.block) * output.stride[0] + Int64(self.head) * output.stride[1])
            if const_expr(config.rows == 1):
                for turn in cutlass.range_constexpr(config.turns):
                    source, target = tile.vector(turn), self.vector(start, turn)
                    if self.has(turn):
                        cute.autovec_copy(source, target)
            else:
                self._store_sums_of_groups(tile, start)

    @cute.jit
    def _store_sums_of_groups(self, tile: VectorRegTile, start: cute.Pointer):
        config = self.config
        layout = cute.make_layout((config.columns, config.rows))
        shared = self.memory.allocate_tensor(Float32, layout, byte_alignment=VECTOR_BYTES)
        group = self.thread // config.threads_per_row
        for turn in cutlass.range_constexpr(config.turns):
            source, target = tile.vector(turn), self.vector(shared.iterator + group * config.columns, turn)
            if self.has(turn):
                cute.autovec_copy(source, target)
        cute.arch.sync_threads()
        for column in cutlass.range(self.thread, config.columns, config.threads, unroll=1):
            total = Float32(0.0)
            for row in cutlass.range(config.rows, unroll=4):
                total += shared[column, row]
            place = cute.make_tensor(start + column, cute.make_layout(1))
            place[0] = total


class StripLoader:
    """Rows of one matrix: global -> a ring in shared memory, or -> registers where the ring has one stage."""

    def __init__(self, strip: Strip, matrix: cute.Tensor):
        self.strip, self.config, self.matrix, self.dtype = strip, strip.config, matrix, matrix.element_type
        config = self.config
        self.bytes = config.vector * self.dtype.width // 8
        if config.stages == 1:
            self.held = strip.tile(self.dtype)
        else:
            layout = cute.make_layout((config.vector, config.threads, config.turns, config.stages))
            self.ring = strip.memory.allocate_tensor(self.dtype, layout, byte_alignment=VECTOR_BYTES)

    def _place(self, turn: int, number: Int32) -> cute.Tensor:
        """Where this thread has vector number `turn` of row `number`."""
        if self.config.stages == 1:
            return self.held.vector(turn)
        vector = self.ring[None, self.strip.thread, turn, number % self.config.stages]
        return cute.make_tensor(vector.iterator.align(min(VECTOR_BYTES, self.bytes)), vector.layout)

    @cute.jit
    def request(self, number: Int32):
        strip, config = self.strip, self.config
        start = self.matrix.iterator + Int64(strip.row(number)) * self.matrix.stride[0]
        exists = strip.place(number) < strip.rows
        for turn in cutlass.range_constexpr(config.turns):
            source, target = strip.vector(start, turn), self._place(turn, number)
            if const_expr(config.rows == 1 and config.is_inner(turn)):
                self._copy(source, target)
            else:
                if exists & strip.has(turn):
                    self._copy(source, target)
                else:
                    target.fill(self.dtype(0))

    @cute.jit
    def _copy(self, source: cute.Tensor, target: cute.Tensor):
        if const_expr(self.config.stages == 1):
            cute.autovec_copy(source, target)
        else:
            copy.copy_async(source, target, self.bytes)

    def values(self, turn: int, number: Int32) -> cute.TensorSSA:
        """Vector number `turn` of row `number` as float32; 0 in columns and rows that do not exist."""
        place = self._place(turn, number)
        if self.config.stages == 1:
            return widened(place)
        vector = cute.make_rmem_tensor(self.config.vector, self.dtype)
        copy.load_shared(place.iterator, cute.recast_tensor(vector, Int32))
        return widened(vector)
