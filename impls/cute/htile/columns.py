"""A vector of one value per column, which all rows share, or those of a head: a weight, a bias."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from . import copy
from .config import VECTOR_BYTES, WARP
from .registers import VectorRegTile, funnel
from .rows import RowContext


class ColumnLoader:
    """Global -> registers. The first-level cache keeps the vector as usual, since every row reads it.

    ahead: turns that `request` requests, after the rows' own loads, so that the reductions hide their latency; by default all. As
    many are requested before their use later on. With 0 only `values` requests a turn, which takes no registers before.

    Where rows start anywhere, what a thread needs starts `skip` elements into a piece, 16 bytes of memory, and ends in the first
    piece of the next lane, which hands it over; `funnel` takes it out of both. The piece after a warp's last one belongs to
    no lane of it: lane number `turn` has that of a turn.
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
        bytes_ = min(VECTOR_BYTES, self.part.bytes)
        self.atom = copy.loading(dtype, bits=8 * bytes_)
        self.tile = VectorRegTile(dtype, config.vector, self.turns)
        if self.is_pieced:
            self.piece, self.lane = 8 * bytes_ // dtype.width, context.tidx % WARP
            self.skip = Int32(self.part.vectors.iterator.toint() % bytes_) // (dtype.width // 8)
            self.after = VectorRegTile(dtype, self.piece, 1)

    def request(self):
        """Request this thread's first values."""
        self._request(self.ahead)

    def _request(self, turns: int):
        """What was not yet requested of the first `turns` turns."""
        if self.is_pieced and turns and not self.requested:
            self._after()
        for turn in range(self.requested, turns):
            if self.is_pieced:
                self._pieces(turn)
            else:
                self.context.move(self.atom, self.part, turn, self.part.vectors[None, turn], self.tile.vector(turn))
        self.requested = max(turns, self.requested)

    @cute.jit
    def _pieces(self, turn: cutlass.Constexpr[int]):
        """This lane's pieces, also those of a lane beyond the CTA's share, whose neighbour may need one."""
        inside = self.context.tXcX[0, 0, turn][1] <= self.config.cta_vectors * self.config.vector
        column, _ = self.context.bounds(turn)
        for i in cutlass.range_constexpr(self.config.vector // self.piece):
            target = cute.local_tile(self.tile.vector(turn), (self.piece,), (i,))
            self._piece(turn, i * self.piece - self.skip, target, column, inside)

    @cute.jit
    def _after(self):
        """The piece after the warp's last one, of that turn whose number is the lane's."""
        config, (column, _) = self.config, self.context.bounds(0)
        ahead = (WARP - self.lane) * config.vector + self.lane * (config.threads_per_row * config.vector) - self.skip
        self._piece(0, ahead, self.after.vector(0), column, self.lane < self.turns)

    @cute.jit
    def _piece(self, turn: cutlass.Constexpr[int], ahead: Int32, target: cute.Tensor, column: Int32, wanted: cutlass.Boolean):
        """A piece that starts `ahead` of vector number `turn`, whose column is given, as far as the row has it."""
        columns, start = const_expr(self.config.columns), column + ahead
        source = cute.make_tensor(self.part.vectors[None, turn].iterator + ahead, cute.make_layout(self.piece))
        whole = wanted & (start >= 0) & (start + self.piece <= columns)
        copy.bounded_copy(self.atom, source, target, whole, (wanted & (start < columns), start, columns))

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` as float32; undefined in columns outside the row. All threads of a warp call this together."""
        self._request(min(turn + max(self.ahead, 1), self.turns))
        if not self.is_pieced:
            return self.tile.values(turn)
        both = cute.make_rmem_tensor(self.config.vector + self.piece, self.tile.tensor.element_type)
        words, mine, after = (cute.recast_tensor(t, Int32) for t in (both, self.tile.vector(turn), self.after.vector(0)))
        for i in range(cute.size(mine)):
            words[i] = mine[i]
        for i in range(cute.size(after)):
            next_lane = cute.arch.shuffle_sync_down(mine[i], 1)
            next_warp = cute.arch.shuffle_sync(after[i], turn)
            words[cute.size(mine) + i] = cutlass.select_(self.lane == WARP - 1, next_warp, next_lane)
        return funnel(both, self.skip, self.config.vector).load().to(Float32)
