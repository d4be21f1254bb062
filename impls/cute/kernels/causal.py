"""Softmax of the columns up to each row's last one, 0 elsewhere: request what is seen -> zeros -> softmax's steps -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32, Int64, const_expr

from ..htile import copy
from ..htile.config import ceil_div
from ..htile.launch import launch_rows, overlap
from ..htile.registers import rounded, widened
from ..htile.rows import RowContext
from ..htile.spans import SpanTileConfig
from .masks import share


class CausalSoftmax:
    """y = softmax(scale * x - alibi * slope * (last - column)) over the `config.window` columns up to `last`, 0 elsewhere.

    x and y are (rows, columns), last is (rows,) int64, -1 where nothing is seen, slope (rows,) float32, None without alibi.
    """

    def __init__(self, config: SpanTileConfig, scale: float, alibi: float):
        self.config, self.scale, self.alibi = config, scale, alibi

    @cute.jit
    def __call__(self, x, last, slope, y, stream):
        launch_rows(self.kernel(x, last, slope, y), self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x, last, slope, y):
        overlap()
        context = Span(self.config, x, last)
        row = Causal(context, y, self.scale)
        if const_expr(self.alibi > 0):
            row.slope = slope[context.known] * self.alibi
        share(context, row, y)


class Span(RowContext):
    """Of a row columns `first` to before `end` are seen, vectors `start` to before `stop`; `index` is this thread's first one."""

    streams = True

    def __init__(self, config: SpanTileConfig, x: cute.Tensor, last: cute.Tensor):
        self.last = last
        super().__init__(config, x, -Float32.inf, 1, 2)
        self.policy = copy.l2_policy("evict_first")

    def _bounds(self):
        config, width = self.config, self.config.vector
        self.known = cutlass.min(self.row, self.shape[0] - 1)
        last = cutlass.min(cutlass.max(self.last[self.known], Int64(-1)), Int64(config.columns - 1))
        self.end = cutlass.select_(self.row_in_bounds, Int32(last) + 1, 0)
        self.first = cutlass.max(self.end - config.window, 0) if config.is_windowed else 0
        self.start = (self.first + self.shift) // width if config.is_windowed else 0
        self.stop = cutlass.select_(self.end > 0, (self.end + self.shift + width - 1) // width, 0)
        self.thread = self.tidx % config.threads_per_row
        self.index = self.start // config.line * config.line + self.rank * config.cta_vectors + self.thread
        self.column = self.index * width - self.shift
        self.tXpX = cute.make_rmem_tensor((1, 1, config.vectors_per_thread), Boolean)
        for turn in range(config.vectors_per_thread):
            self.tXpX[0, 0, turn] = self.touched(turn) & self.within(self.bounds(turn)[0])

    def partition(self, matrix: cute.Tensor, alike: bool = False) -> copy.Partition:
        return self.vectors(matrix, self.index, self.config.vectors_per_thread, self.config.threads_per_row)

    def vectors(self, matrix: cute.Tensor, index: Int32, turns: int, step: int) -> copy.Partition:
        """Every `step`-th vector of the row from one on."""
        width, is_straight = self.config.vector, self.config.aligned
        offset = Int64(self.row) * matrix.stride[0] + (index * width - self.shift)
        start = matrix.iterator + (cute.assume(offset, divby=width) if is_straight else offset)
        layout = cute.make_layout((width, turns), stride=(1, step * width))
        return copy.Partition(cute.make_tensor(start, layout), is_straight, matrix)

    def within(self, column: Int32) -> Boolean | bool:
        """Whether a vector of the row has nothing else."""
        return True if self.config.aligned else (column >= 0) & (column + self.config.vector <= self.config.columns)

    def touched(self, turn: int) -> Boolean:
        config, behind = self.config, turn * self.config.threads_per_row
        seen = self.index + behind < self.stop
        if config.cluster > 1:
            seen = seen & (self.thread + behind < config.cta_vectors)
        return seen & (self.index + behind >= self.start) if config.is_windowed else seen

    def trim(self, turn: int, vector: cute.Tensor, fill: float | None):
        """As for any row, but one outside the span is filled already."""
        column, columns = self.bounds(turn)[0] - self.first, self.end - self.first
        after = column + self.config.vector
        outside = (column >= columns) | (after <= 0)
        copy.clear(vector, outside | ((column >= 0) & (after <= columns)), True, column, columns, vector.element_type(fill))


class Causal:
    """The logits of a row, for `softmax` and `store_undefined`, and the zeros beside them."""

    slope = None

    def __init__(self, context: Span, y: cute.Tensor, scale: float):
        self.context, self.scale, self.dtype = context, scale, y.element_type
        self.loaders, self.seen = (context.x, self), context.x.read
        each = context.config.threads_per_row
        self.number, self.step = context.rank * each + context.thread, context.config.cluster * each
        self.turns = ceil_div(context.config.vectors, self.step)
        self.part = context.vectors(y, self.number, self.turns, self.step)

    def wait(self):
        """What is written is not waited for."""

    @cute.jit
    def request(self):
        """Send the zeros on their way: after the requests of the row, and before what waits for it."""
        atom = copy.storing(self.dtype, min(128, 8 * self.part.bytes), True)
        zeros = cute.make_rmem_tensor(self.context.config.vector, self.dtype)
        zeros.fill(self.dtype(0))
        for turn in cutlass.range(self.turns, unroll=4):
            index = self.number + turn * self.step
            column = index * self.context.config.vector - self.context.shift
            hidden = self.context.row_in_bounds & (column < self.context.config.columns)
            hidden = hidden & ((index >= self.context.stop) | (index < self.context.start))
            whole, edges = hidden & self.context.within(column) & self.part.straight, None
            if const_expr(self.part.straight is not True):
                edges = (hidden, column, self.context.config.columns, (True, True))
            copy.bounded_copy(atom, zeros, self.part.vectors[None, turn], whole, edges)

    def values(self, turn: int, reuse: str = "soon") -> cute.TensorSSA:
        """Logits, -inf where nothing is seen."""
        context = self.context
        logits = rounded(widened(context.x.vector(turn, reuse)) * self.scale, Float32)
        if self.slope is not None:
            distance = Float32(context.end - 1 - context.bounds(turn)[0])
            for i in range(cute.size(logits)):
                logits[i] = logits[i] - self.slope * (distance - i)
        return logits.load()

    def again(self, turn: int) -> cute.TensorSSA:
        return self.values(turn, "over")
