"""Vectors of one value per column in shared memory: of a split row a CTA always has the same columns, so it reads them once."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int32, const_expr

from .columns import PIECE_BYTES
from .config import VECTOR_BYTES, ceil_div
from .copy import load_shared
from .registers import funnel, widened
from .split import SplitContext


class Resident:
    """The share of this CTA of a vector (columns,) of the rows' element size.

    Rows may begin up to `ahead` elements before the share, and so does the memory. Their last
    vector may take nothing of its last piece, which is read all the same.
    """

    def __init__(self, context: SplitContext, source: cute.Tensor):
        config = context.config
        self.context, self.config, self.source = context, config, source
        self.ahead = config.leads * config.vector
        self.count = config.cta_vectors * config.vector + self.ahead
        beyond = 0 if config.aligned else PIECE_BYTES // config.itemsize
        layout = cute.make_layout(self.count + beyond)
        self.kept = context.memory.allocate_tensor(source.element_type, layout, byte_alignment=VECTOR_BYTES)

    @cute.jit
    def bring(self, thread: Int32, threads: int):
        """Read this thread's part of the share, of `threads` that call it. They meet at a barrier before they ask for `values`."""
        config, source, kept, count = self.config, self.source, self.kept, self.count
        first = self.context.share * config.vector - self.ahead
        for turn in cutlass.range(ceil_div(count, threads), unroll_full=True):
            place = thread + turn * threads
            column = first + place
            if (place < count) & (column >= 0) & (column < config.columns):
                kept[place] = source[column]

    @cute.jit
    def values(self, index: Int32, shift: Int32, turn: cutlass.Constexpr[int]) -> cute.TensorSSA:
        """The float32 values of vector number `index`, of that turn; undefined outside the row and the share."""
        config = self.config
        index = index if config.is_inner(turn) else cutlass.min(index, config.cta_vectors - 1)
        size, start = config.itemsize, index * config.vector + self.ahead
        if const_expr(config.aligned):
            vector = cute.make_rmem_tensor(config.vector, self.source.element_type)
            load_shared(self.kept.iterator + (start - shift), cute.recast_tensor(vector, Int32))
            return widened(vector)
        piece = const_expr(PIECE_BYTES // size)
        skip = (0 - shift) & (piece - 1)
        found = cute.make_rmem_tensor(config.vector + piece, self.source.element_type)
        words = cute.recast_tensor(found, Int32)
        for number in cutlass.range_constexpr(cute.size(found) // piece):
            part = cute.local_tile(words, (2,), (number,))
            load_shared(self.kept.iterator + (start - shift - skip + number * piece), part)
        return widened(funnel(found, skip, config.vector))
