"""What a row-wise kernel does before and after its arithmetic: tiles, bounds, shared memory, loads, stores."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from .bounds import Partition, RowBounds
from .compute.reduce import Reduction
from .config import VECTOR_BYTES, ElementwiseTileConfig
from .copy.vector import (
    HintedAtom,
    VectorCopy,
    bounded_copy,
    fill_oob,
    filled_copy,
    load_shared,
    predicate_k,
    retaining_policy,
    vector_copy,
)
from .types.register import VectorRegTile, rounded

# Of a CTA's rows, half of a multiprocessor's registers: more has no room beside its float32 values.
HELD_BYTES = 128 * 1024


class ElementwiseKernelContext(RowBounds):
    """One thread's part of a tile of rows.

    A thread only ever reads back what it has itself brought to shared memory, so no barrier separates the two.
    Low-level pieces: `tXgX`, `tXsX`, `tXrX`, `tXcX`, `tXpX`, `reduction`, `row`, `row_in_bounds`, `partition`; an
    ElementwiseLoader or ElementwiseStorer of its own for each further matrix.
    """

    def __init__(self, config: ElementwiseTileConfig) -> None:
        self.config = config

    def setup(
        self,
        mX: cute.Tensor,
        fill: float = 0.0,
        stage: int = 1,
        width: int = 1,
        extra_smem_tensors: int = 0,
    ) -> None:
        """Indices, shared memory, tiles, bounds and registers for the matrix mX (rows, columns).

        fill                what columns and rows outside the matrix read as
        stage, width        exchanges of the kernel's reductions, and float32 values in each
        extra_smem_tensors  further tiles in shared memory (`extra_sX`), for matrices beside mX, or for mX's other rows
        """
        config = self.config
        self.shape, self.fill = mX.shape, fill
        row_bytes = config.vectors_per_thread * config.threads * VECTOR_BYTES
        self.held = config.keep != "l1" or row_bytes * (1 + extra_smem_tensors) <= HELD_BYTES
        self.tidx = cute.arch.thread_idx()[0]
        self.rank = cute.arch.block_idx()[1] if config.cluster > 1 else 0
        self.row = cute.arch.block_idx()[0] * config.rows + self.tidx // config.threads_per_row
        self.row_in_bounds = self.row < mX.shape[0]
        self.policy = retaining_policy(Int64(mX.shape[0]), config.columns * config.itemsize)
        self.shift = 0 if config.aligned else self._shift(mX)
        self.thread_copy = VectorCopy(config, mX.element_type).tiled_copy_2d().get_slice(self.tidx)
        self._bounds()
        memory = cutlass.memory.SmemAllocator()
        self.tXsX, *self.extra_sX = [self._shared(memory, mX.element_type) for _ in range(1 + extra_smem_tensors)]
        self.reduction = Reduction(config, memory, stage, width)
        self.reduction.open()
        self.x = ElementwiseLoader(self, mX, self.tXsX)
        self.tXgX, self.tXrX = self.x.part.vectors, self.x.tXrX

    def _shift(self, matrix: cute.Tensor) -> Int32:
        """Elements between the last 16-byte boundary and the first element of this thread's row."""
        size = matrix.element_type.width // 8
        address = matrix.iterator.toint() + Int64(self.row) * (matrix.stride[0] * size)
        return Int32(address % VECTOR_BYTES) // size

    def _bounds(self) -> None:
        """tXcX: (row, column) of the tile; tXpX: which vectors lie wholly in this CTA's share of the row."""
        config = self.config
        self.tXcX = self.thread_copy.partition_S(cute.make_identity_tensor(config.tiler_mn))
        start = self.rank * (config.cta_vectors * config.vector)
        self.column = self.tXcX[0][1] + (start - self.shift)
        self.tXpX = None
        if not config.is_even:
            end = cutlass.min(config.cta_vectors * config.vector, config.columns + self.shift - start)
            self.tXpX = predicate_k(self.tXcX, cutlass.max(self.shift - start, 0), end)

    def _shared(self, memory: object, dtype: type[cutlass.Numeric]) -> cute.Tensor | None:
        if self.config.keep != "shared":
            return None
        layout = cute.make_ordered_layout(self.config.tiler_mn, order=(1, 0))
        return self.thread_copy.partition_D(memory.allocate_tensor(dtype, layout, byte_alignment=VECTOR_BYTES))

    def make_fragment(self, dtype: type[cutlass.Numeric]) -> VectorRegTile:
        """Registers for this thread's vectors, of any dtype."""
        return VectorRegTile(dtype, self.config.vector, self.config.vectors_per_thread)

    def partition(self, matrix: cute.Tensor) -> Partition:
        """This thread's vectors of a (rows, columns) matrix, whose dtype is as wide as the first matrix's or wider.

        Raises ValueError for a narrower one, whose vectors would be less than 16 bytes.
        """
        config = self.config
        if matrix.element_type.width < 8 * config.itemsize:
            raise ValueError(f"{matrix.element_type} beside rows of {config.itemsize} bytes an element")
        offset = self.rank * (config.cta_vectors * config.vector) - self.shift
        if config.aligned:
            offset = cute.assume(offset, divby=config.vector) if config.cluster > 1 else 0
        window = cute.domain_offset((0, offset), matrix)
        tile = cute.local_tile(window, config.tiler_mn, (cute.arch.block_idx()[0], 0))
        vectors = self.thread_copy.partition_S(tile)[None, 0, None]
        known = config.aligned and matrix.iterator.alignment % VECTOR_BYTES == 0
        straight = True if known else vectors.iterator.toint() % VECTOR_BYTES == 0
        return Partition(vectors, straight, matrix)

    @cute.jit
    def move(
        self,
        atom: HintedAtom,
        part: Partition,
        turn: cutlass.Constexpr[int],
        source: cute.Tensor,
        target: cute.Tensor,
        beside: cutlass.Constexpr[bool] = False,
    ) -> None:
        """Copy what the matrix has of vector number `turn` of a partition.

        beside  for a target of this thread's own: a vector at a row's end comes whole, with what it holds beside the row
        """
        if const_expr(self.free(turn, part)):
            vector_copy(atom, source, target)
        else:
            whole = self.readable(turn, part) if const_expr(beside) else self.whole(turn, part)
            bounded_copy(atom, source, target, whole, self.edges(turn, part))


class ElementwiseLoader:
    """Global -> registers, or global -> shared -> registers, for one matrix; where it stays is `config.keep`.

    `load` brings the row, `values` are the vectors as float32, and `again` is their last use: with "l1" that is a second
    read of global memory, which the first read told the cache to expect. Where a CTA's rows are more than HELD_BYTES,
    registers do not hold them even until then, and every use is a read.
    """

    def __init__(self, context: ElementwiseKernelContext, matrix: cute.Tensor, tXsX: cute.Tensor | None = None) -> None:
        self.context, self.config = context, context.config
        self.part = context.partition(matrix)
        self.tXsX = tXsX
        self.tXrX = context.make_fragment(matrix.element_type)
        self.copy = VectorCopy(self.config, matrix.element_type)

    def load(self) -> None:
        """Request every vector, and wait for those that go through shared memory."""
        self.request()
        self.wait()

    @cute.jit
    def request(self) -> None:
        """Ask for every vector; what does not depend on them can go on meanwhile."""
        if const_expr(self.config.keep == "shared"):
            # CUDA 12's assembler, which the DSL (4.8.1) brings unless told otherwise, takes uniform registers for both addresses
            # where a CTA has several rows, and encodes what the GPU calls an illegal instruction, if there is a policy.
            atom = self.copy.asynchronous(self.context.policy if self.config.rows == 1 else None)
            for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
                self._request_shared(atom, turn)
            if const_expr(self.part.straight is True and not self.config.is_even):
                outside = self.tXsX.element_type(self.context.fill)
                fill_oob(self.tXsX, self.context.tXpX, outside, self.config.outer_turns)
            cute.arch.cp_async_commit_group()
        elif const_expr(self.context.held):
            atom = self.copy.loading(self.context.policy, "soon" if self.config.keep == "l1" else "none")
            for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
                self._to_registers(atom, turn, self.tXrX.vector(turn))
            for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
                self._trim(turn, self.tXrX.vector(turn))

    @cute.jit
    def wait(self) -> None:
        """Return when this thread's vectors are in shared memory, where they go there."""
        if const_expr(self.config.keep == "shared"):
            cute.arch.cp_async_wait_group(0)
            for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
                self._trim(turn, self.tXsX[None, 0, turn])

    @cute.jit
    def _request_shared(self, atom: HintedAtom, turn: cutlass.Constexpr[int]) -> None:
        source, target = self.part.vectors[None, turn], self.tXsX[None, 0, turn]
        context, part = self.context, self.part
        if const_expr(part.straight is True):
            context.move(atom, part, turn, source, target)
        else:
            readable = context.readable(turn, part)
            filled_copy(atom, source, target, readable, context.edges(turn, part), context.fill)

    @cute.jit
    def _to_registers(self, atom: HintedAtom, turn: cutlass.Constexpr[int], target: cute.Tensor) -> None:
        if const_expr(not self.context.free(turn, self.part)):
            target.fill(target.element_type(self.context.fill))
        self.context.move(atom, self.part, turn, self.part.vectors[None, turn], target, beside=True)

    @cute.jit
    def _trim(self, turn: cutlass.Constexpr[int], vector: cute.Tensor) -> None:
        """Set what a vector holds beside the row to context.fill. It comes after all requests, since it waits for one."""
        if const_expr(not self.config.aligned and not self.config.is_inner(turn)):
            column, columns = self.context.bounds(turn)
            outside = vector.element_type(self.context.fill)
            for i in cutlass.range_constexpr(cute.size(vector)):
                if (column + i < 0) | (column + i >= columns):
                    vector[i] = outside

    def values(self, turn: int, anew: bool = False) -> cute.TensorSSA:
        """Vector number `turn` as float32. anew: converted once more where it is in registers (`values_anew`)."""
        if not self.context.held:
            return self._read(turn, "soon")
        if self.config.keep != "shared":
            return self.tXrX.values_anew(turn) if anew else self.tXrX.values(turn)
        vector = cute.make_rmem_tensor_like(self.tXrX.vector(turn))
        load_shared(self.tXsX[None, 0, turn].iterator, cute.recast_tensor(vector, Int32))
        return vector.load().to(Float32)

    def again(self, turn: int, anew: bool = False) -> cute.TensorSSA:
        """The same for the last time."""
        return self._read(turn, "over") if self.config.keep == "l1" else self.values(turn, anew)

    def _read(self, turn: int, reuse: str) -> cute.TensorSSA:
        vector = cute.make_rmem_tensor_like(self.tXrX.vector(turn))
        self._to_registers(self.copy.loading(self.context.policy, reuse), turn, vector)
        self._trim(turn, vector)
        return vector.load().to(Float32)


class ElementwiseStorer:
    """Registers -> global for one matrix."""

    def __init__(self, context: ElementwiseKernelContext, matrix: cute.Tensor) -> None:
        self.context, self.config = context, context.config
        self.part = context.partition(matrix)
        self.dtype = matrix.element_type
        self.atom = VectorCopy(self.config, self.dtype).storing()

    @cute.jit
    def store(self, turn: cutlass.Constexpr[int], values: cute.TensorSSA) -> None:
        """Round float32 values to the matrix's dtype, to vector number `turn`, where the matrix has it."""
        self.context.move(self.atom, self.part, turn, rounded(values, self.dtype), self.part.vectors[None, turn])
