"""A vector of one value per column, which all rows share, or those of a head: a weight, a bias."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from . import copy
from .config import VECTOR_BYTES, RowTileConfig
from .registers import VectorRegTile, funnel
from .rows import RowContext

# More registers of pieces would keep CTAs off the multiprocessor.
SHORT_TURNS, LONG_TURNS = 4, 7


def pieces_ahead(config: RowTileConfig, tiles: int) -> int:
    """Turns of pieces that are requested before their use; 0: vectors are not read in pieces. tiles: matrices that are kept."""
    if config.aligned or (config.keep == "registers" and config.vectors_per_thread <= SHORT_TURNS):
        return 0
    return 2 if tiles == 1 and config.vectors_per_thread >= LONG_TURNS else 1


class ColumnLoader:
    """Global -> registers. The first-level cache keeps the vector as usual, since every row reads it.

    delayed: only `values` requests it, so it takes no registers before; otherwise `request` does, after the rows' own loads,
    and the reductions hide its latency.

    Where rows start anywhere, what a thread needs starts `skip` elements into a piece, 16 bytes of memory, and ends in the
    next one. Both are loaded, and `funnel` takes it out of them.
    """

    def __init__(self, context: RowContext, vector: cute.Tensor, delayed: bool = False):
        config, dtype = context.config, vector.element_type
        self.context, self.turns = context, config.vectors_per_thread
        self.ahead = pieces_ahead(config, 1 + len(context.extra_sX))
        self.early, self.requested = 0 if delayed else self.ahead or self.turns, 0
        every_row = cute.make_layout(context.shape, stride=(0, 1))
        start = vector.iterator
        if cute.rank(vector) == 2:
            start = start + Int64(context.row % vector.shape[0]) * vector.stride[0]
        self.part = context.partition(cute.make_tensor(start, every_row))
        bytes_ = min(VECTOR_BYTES, self.part.bytes)
        self.atom = copy.loading(dtype, bits=8 * bytes_)
        self.piece, width = 8 * bytes_ // dtype.width, config.vector
        if self.ahead:
            self.skip = Int32(self.part.vectors.iterator.toint() % bytes_) // (dtype.width // 8)
            width += self.piece
        self.tile = VectorRegTile(dtype, width, self.turns)

    def request(self):
        """Request this thread's first values, unless that is delayed."""
        self._request(self.early)

    def _request(self, turns: int):
        """What was not yet requested of the first `turns` turns."""
        for turn in range(self.requested, min(turns, self.turns)):
            if self.ahead:
                self._pieces(turn)
            else:
                self.context.move(self.atom, self.part, turn, self.part.vectors[None, turn], self.tile.vector(turn))
        self.requested = max(turns, self.requested)

    @cute.jit
    def _pieces(self, turn: cutlass.Constexpr[int]):
        """Those that lie wholly in the vector are loaded as one."""
        context, target = self.context, self.tile.vector(turn)
        (column, columns), touched = context.bounds(turn), context.touched(turn)
        for i in cutlass.range_constexpr(cute.size(target) // self.piece):
            first = i * self.piece - self.skip
            source = cute.make_tensor(self.part.vectors[None, turn].iterator + first, cute.make_layout(self.piece))
            piece, start = cute.local_tile(target, (self.piece,), (i,)), column + first
            if const_expr(context.config.is_inner(turn, beyond=1)):
                copy.vector_copy(self.atom, source, piece)
            else:
                whole = touched & (start >= 0) & (start + self.piece <= columns)
                copy.bounded_copy(self.atom, source, piece, whole, (touched, start, columns))

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` as float32; undefined in columns outside the row."""
        self._request(turn + 1)
        if not self.ahead:
            return self.tile.values(turn)
        taken = funnel(self.tile.vector(turn), self.skip, self.context.config.vector)
        self._request(turn + 1 + self.ahead)
        return taken.load().to(Float32)
