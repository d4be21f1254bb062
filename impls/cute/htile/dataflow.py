"""What a row-wise kernel does before and after its arithmetic: tiles, bounds, shared memory, loads, stores."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int64

from .config import ElementwiseTileConfig
from .copy import fill_vector, store_vector, thread_tiling


class RowContext:
    """One thread's part of a tile of rows, from global memory to global memory.

    A thread reads only the vectors that it has itself brought to shared memory, so no barrier separates the two.
    Vectors and rows outside the matrix are -inf in shared memory and are not stored.
    """

    def __init__(self, config: ElementwiseTileConfig, source: cute.Tensor, destination: cute.Tensor) -> None:
        self.config = config
        self.thread = cute.arch.thread_idx()[0]
        self.rank = cute.arch.block_idx()[1] if config.cluster > 1 else 0
        self._allocate(source.element_type)
        tiling = thread_tiling(config, source.element_type)
        mine = tiling.get_slice(self.thread)
        self.tiling = tiling
        self.source = mine.partition_S(self._tile(source))
        self.destination = mine.partition_D(self._tile(destination))
        self.shared = mine.partition_D(self.tile)
        row = cute.arch.block_idx()[0] * config.rows + self.thread // config.threads_per_row
        self.row_exists = row < source.shape[0]

    def _allocate(self, dtype: type[cutlass.Numeric]) -> None:
        config = self.config
        memory = cutlass.memory.SmemAllocator()
        layout = cute.make_ordered_layout((config.rows, config.tile_columns), order=(1, 0))
        self.tile = memory.allocate_tensor(dtype, layout, byte_alignment=16)
        self.pairs = self.barrier = None
        if config.peers > 1:
            layout = cute.make_ordered_layout((config.rows, config.peers, 2), order=(2, 1, 0))
            self.pairs = memory.allocate_tensor(Float32, layout, byte_alignment=16)
        if config.cluster > 1:
            self.barrier = memory.allocate_array(Int64, 1)

    def _tile(self, matrix: cute.Tensor) -> cute.Tensor:
        """This CTA's rows and columns. A CTA's share need not be a whole tile wide, hence the offset."""
        config = self.config
        first = self.rank * config.cta_columns
        if config.cluster > 1:
            first = cute.assume(first, divby=config.vector)
        share = cute.domain_offset((0, first), matrix)
        return cute.local_tile(share, (config.rows, config.tile_columns), (cute.arch.block_idx()[0], 0))

    def vector(self, turn: int) -> cute.Tensor:
        """This thread's vector number `turn` in shared memory."""
        return self.shared[None, 0, turn]

    def exists(self, turn: int) -> Boolean:
        """Whether this thread's vector number `turn` lies inside the matrix; a constant where that is known."""
        config = self.config
        if config.is_even:
            return Boolean(True) if config.rows == 1 else self.row_exists
        index = self.thread % config.threads_per_row + turn * config.threads_per_row
        inside = index < config.cta_vectors
        if config.cluster > 1:
            inside = inside & (index + self.rank * config.cta_vectors < config.vectors)
        return self.row_exists & inside


@cute.jit
def load(context: RowContext) -> None:
    """Bring this thread's vectors to shared memory: all requests first, then one wait."""
    tiling = context.tiling
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        inside = context.exists(turn)
        source = context.source[None, 0, turn]
        vector = context.vector(turn)
        if inside:
            cute.copy(tiling, source, vector)
        else:
            fill_vector(vector, -Float32.inf)
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)


@cute.jit
def store(context: RowContext, turn: cutlass.Constexpr[int], values: cute.TensorSSA) -> None:
    """Write float32 values of vector number `turn` to the destination, where it has such a vector."""
    inside = context.exists(turn)
    destination = context.destination[None, 0, turn]
    if inside:
        store_vector(values, destination)
