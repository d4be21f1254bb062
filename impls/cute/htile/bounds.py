"""Where a thread's vectors end: which of them lie in the row, and which can be moved or read as one."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int64

from .config import VECTOR_BYTES


class Partition:
    """A thread's vectors of one matrix: (vector, turns) in global memory, and whether they start on 16 bytes.

    straight    True where that is known when the kernel is compiled, else a Boolean of the thread's
    start, end  the addresses between which the matrix lies
    """

    def __init__(self, vectors: cute.Tensor, straight: object, matrix: cute.Tensor) -> None:
        self.vectors, self.straight = vectors, straight
        self.start = matrix.iterator.toint()
        rows, columns = matrix.shape
        elements = (Int64(rows) - 1) * matrix.stride[0] + columns
        self.end = self.start + elements * (matrix.element_type.width // 8)


class RowBounds:
    """The part of a kernel's context that knows its rows' ends: `config`, `row_in_bounds`, `column`, `tXcX` and `tXpX`."""

    def free(self, turn: int, part: Partition) -> bool:
        """Whether vector number `turn` of a partition is moved as one by every thread, as is known when compiling."""
        return part.straight is True and self.config.rows == 1 and self.config.is_inner(turn)

    def whole(self, turn: int, part: Partition) -> object:
        """Whether vector number `turn` of a partition lies wholly in the matrix and can be moved as one."""
        inside = self.row_in_bounds
        if not self.config.is_inner(turn):
            inside = inside & self.tXpX[0, 0, turn]
        return inside if part.straight is True else inside & part.straight

    def readable(self, turn: int, part: Partition) -> object:
        """Whether vector number `turn` of a partition can be read as one: what it holds beside the row is the matrix's too.

        Only the first vector of a matrix and its last may not be.
        """
        if self.config.aligned or self.config.is_inner(turn):
            return self.whole(turn, part)
        address = part.vectors[None, turn].iterator.toint()
        return self.touched(turn) & part.straight & (address >= part.start) & (address + VECTOR_BYTES <= part.end)

    def touched(self, turn: int) -> object:
        """Whether vector number `turn` belongs to this CTA's share of a row of the matrix, wholly or not."""
        config = self.config
        return self.row_in_bounds & (self.tXcX[0, 0, turn][1] < config.cta_vectors * config.vector)

    def bounds(self, turn: int) -> tuple:
        """The column of the first element of vector number `turn`, negative before the row, and the row's columns."""
        return self.column + turn * (self.config.threads_per_row * self.config.vector), self.config.columns

    def edges(self, turn: int, part: Partition) -> tuple | None:
        """What `edge_copy` asks of vector number `turn` of a partition; None where all are whole or not there at all."""
        return None if part.straight is True else (self.touched(turn), *self.bounds(turn))

    def masked(self, turn: int, values: cute.TensorSSA, absent: float = 0.0) -> cute.TensorSSA:
        """float32 values of vector number `turn`, with `absent` for those outside this CTA's share of the row."""
        if self.config.is_inner(turn):
            return values
        kept = cute.make_rmem_tensor(values.shape, Float32)
        kept.store(values)
        column, columns = self.bounds(turn)
        for i in range(self.config.vector):
            inside = self.tXpX[0, 0, turn]
            if not self.config.aligned:
                inside = (column + i >= 0) & (column + i < columns) & self.touched(turn)
            kept[i] = cutlass.select_(inside, kept[i], Float32(absent))
        return kept.load()
