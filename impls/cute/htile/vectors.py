"""Vectors beside a kernel's matrices: one value a column comes in, one value a row goes out."""

from __future__ import annotations

import cutlass.cute as cute
from cutlass import Float32

from .copy.vector import VectorCopy
from .dataflow import ElementwiseKernelContext
from .utils import expand


class ColumnLoader:
    """Global -> registers for a vector of one value a column, the same in every row: a weight, a bias.

    It is read in the first-level cache's plain way, since every row takes it. delayed: only `values` asks for it, so that
    it takes no registers before; else `request` does, behind the rows' own loads, and what comes between hides its way.
    """

    def __init__(self, context: ElementwiseKernelContext, vector: cute.Tensor, delayed: bool = False) -> None:
        self.context, self.delayed = context, delayed
        self.part = context.partition(expand(vector, context.shape[0]))
        self.tile = context.make_fragment(vector.element_type)
        self.atom = VectorCopy(context.config, vector.element_type).loading()

    def request(self) -> None:
        """Ask for this thread's values, unless that is delayed."""
        if not self.delayed:
            for turn in range(self.context.config.vectors_per_thread):
                self._fetch(turn)

    def _fetch(self, turn: int) -> None:
        self.context.move(self.atom, self.part, turn, self.part.vectors[None, turn], self.tile.vector(turn))

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` as float32; anything in columns outside the row."""
        if self.delayed:
            self._fetch(turn)
        return self.tile.values(turn)


@cute.jit
def store_row(context: ElementwiseKernelContext, vector: cute.Tensor, value: Float32) -> None:
    """Write what all threads of a row agree on to (rows,) float32; one of them does."""
    row = context.row
    first = context.row_in_bounds & (context.tidx % context.config.threads_per_row == 0) & (context.rank == 0)
    if first:
        vector[row] = value
