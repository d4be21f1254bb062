"""A vector of one value per column, which all rows share, or those of a head: a weight, a bias."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr

from . import copy
from .config import VECTOR_BYTES
from .registers import VectorRegTile, funnel, widened
from .rows import RowContext

PIECE_BYTES = 8


class ColumnLoader:
    """Global -> registers. The first-level cache keeps the vector as usual, since every row reads it.

    ahead: turns that `request` requests, after the rows' own loads, so that the reductions hide their latency; by default all. As
    many are requested before their use later on. With 0 only `values` requests a turn, which takes no registers before.

    Where rows start anywhere, what a thread needs starts `skip` elements into a piece of PIECE_BYTES of memory and ends in a piece
    more than it fills, out of which `funnel` takes it.
    """

    def __init__(self, context: RowContext, vector: cute.Tensor, ahead: int | None = None):
        config, dtype = context.config, vector.element_type
        self.context, self.config, self.turns = context, config, config.vectors_per_thread
        self.is_pieced = not config.aligned and config.rows == 1
        self.ahead, self.requested = self.turns if ahead is None else min(ahead, self.turns), 0
        every_row = cute.make_layout(context.shape, stride=(0, 1))
        start = vector.iterator
        if cute.rank(vector) == 2:
            start = start + Int64(context.row % vector.shape[0]) * vector.stride[0]
        self.part = context.partition(cute.make_tensor(start, every_row))
        bytes_ = min(PIECE_BYTES if self.is_pieced else VECTOR_BYTES, self.part.bytes)
        self.atom = copy.loading(dtype, bits=8 * bytes_)
        size = dtype.width // 8
        self.tile = VectorRegTile(dtype, config.vector + (bytes_ // size if self.is_pieced else 0), self.turns)
        if self.is_pieced:
            # A vector that starts on 16 bytes has all elements of a piece, or none, but for its last ones.
            self.starts_whole, each = config.alike and cute.rank(vector) == 1, bytes_ // size
            if self.starts_whole:
                self.skip = -context.shift & (each - 1)
                self.pieces = start + cute.assume(context.column - self.skip, divby=each)
            else:
                self.skip = Int32(self.part.vectors.iterator.toint() % bytes_) // size
                self.pieces = (self.part.vectors.iterator - self.skip).align(bytes_)

    def request(self):
        """Request this thread's first values."""
        self._request(self.ahead)

    def _request(self, turns: int):
        """What was not yet requested of the first `turns` turns."""
        for turn in range(self.requested, turns):
            if self.is_pieced:
                self._pieces(turn, self.tile.vector(turn))
            else:
                self.context.move(self.atom, self.part, turn, self.part.vectors[None, turn], self.tile.vector(turn))
        self.requested = max(turns, self.requested)

    @cute.jit
    def _pieces(self, turn: cutlass.Constexpr[int], target: cute.Tensor):
        """The pieces that hold vector number `turn`; of the first and the last ones of a row only its own elements."""
        (column, columns), count = self.context.bounds(turn), const_expr(cute.size(target))
        start = column - self.skip
        source = cute.make_tensor(self.pieces + turn * (self.config.threads_per_row * self.config.vector), cute.make_layout(count))
        if const_expr(self.config.is_inner(turn, beyond=1)):
            copy.vector_copy(self.atom, source, target)
        elif const_expr(self.starts_whole):
            each, (starts, ends) = const_expr(self.atom.bits // target.element_type.width), self.config.sides(turn, beyond=1)
            touched = self.context.touched(turn)
            for first in cutlass.range_constexpr(0, count, each):
                piece, place = (cute.make_tensor(x.iterator + first, cute.make_layout(each)) for x in (source, target))
                if touched & copy.inside(start + first, each, columns, (starts, ends)):
                    copy.vector_copy(self.atom, piece, place)
                if const_expr(ends and columns % each):
                    if touched & (start + first == columns - columns % each):
                        for i in cutlass.range_constexpr(columns % each):
                            place[i] = piece[i]
        else:
            touched, sides = self.context.touched(turn), const_expr(self.config.sides(turn, beyond=1))
            whole = touched & copy.inside(start, count, columns, sides)
            copy.bounded_copy(self.atom, source, target, whole, (touched, start, columns, sides) if any(sides) else None)

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` as float32; undefined in columns outside the row."""
        self._request(min(turn + max(self.ahead, 1), self.turns))
        if not self.is_pieced:
            return self.tile.values(turn)
        return widened(funnel(self.tile.vector(turn), self.skip, self.config.vector))
