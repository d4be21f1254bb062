"""RMSNorm and LayerNorm over rows: load -> mean square, or mean and variance -> normalise -> scale -> store.

For LayerNorm each warp has a part of the row, (sum, square, count, rest): the sum of its values, the sum of their squared
distances from their own mean, their number, and the sum of their distances from that mean. Parts with means m_i merge by

    sum = Σ sum_i        square = Σ square_i + Σ (m_i - m) · (count_i · (m_i - m) + 2 rest_i)

(Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979). Unlike
mean(t²) - mean², this loses nothing where the mean is large against the deviation. A rest is not 0 only because m_i is
rounded. Where parts differ, it is the largest error of the square: 1e-5 of it for float32 values around 1e4. 16-bit values
are rounded more coarsely than that.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from ..htile.columns import ColumnLoader
from ..htile.config import REGISTERS, SAFE_CLUSTER, WARP, RowTileConfig, ceil_div
from ..htile.launch import launch_rows, overlap
from ..htile.reduce import ADD, Reduction, row_reduce, warp_reduce
from ..htile.rows import RowContext, RowLoader, RowStorer

WIDE_ROW_THREADS, LAYER_ROW_THREADS, REGISTER_TURNS, LAYER_TURNS = 512, 256, 3, 2
LONG_TURNS, FEW_TURNS, FEW_THREADS = 8, (4, 2), 320
LAYER_THREADS = 128  # up to which a LayerNorm of rows that start anywhere has four turns of weights under way
PART_WIDTH = 4  # values of an exchange
QUICK = 4.0  # mean² / variance up to which the variance is that of sums of squares: 13 times their rounding, about 1e-6

Part = tuple[Float32, Float32, Float32, Float32]


class Norm:
    """A norm over the rows of t = x, or t = x + residual in float32; a callable for `cute.compile`.

    RMSNorm    y = t * rstd * weight + bias            rstd = rsqrt(mean(t^2) + eps)
    LayerNorm  y = (t - mean) * rstd * weight + bias   rstd = rsqrt(mean((t - mean)^2) + eps)

    x and y are (rows, columns) in one dtype, float16, bfloat16 or float32, residual and residual_out in one; weight and bias
    are (columns,), or with `heads` (heads, columns) for rows whose number modulo their own is a head; rstd and mean are
    (rows,) float32. All but x and y may be None. y comes from t before t is rounded to residual_out. Squares are float32, as in
    torch: rows whose sum of t^2 is beyond 3.4e38 become 0 or NaN. Raises ValueError for RMSNorm with a mean.
    """

    def __init__(self, config: RowTileConfig, layer: bool, eps: float, heads: bool = False):
        self.config, self.layer, self.eps, self.heads = config, layer, eps, heads

    @cute.jit
    def __call__(self, x, weight, bias, residual, y, residual_out, rstd, mean, stream):
        if const_expr(mean is not None and not self.layer):
            raise ValueError("RMSNorm has no mean")
        kernel = self.kernel(x, weight, bias, residual, y, residual_out, rstd, mean)
        launch_rows(kernel, self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x, weight, bias, residual, y, residual_out, rstd, mean):
        overlap()
        config, width = self.config, PART_WIDTH if self.layer else 1
        more, dtype = (0, None) if residual is None else (1, residual.element_type)
        quick = self.layer and config.itemsize == 2 and config.rows == config.cluster == 1 and rstd is None and mean is None
        context = RowContext(config, x, 0.0, 1, width, extra_smem_tensors=more, extra_dtype=dtype)
        if const_expr(self.layer and config.keep == "shared" and config.cluster == 1):
            context.policy = None  # for CUDA 12's assembler, as in `RowLoader.request`
        ahead = weights_ahead(config, self.layer, 1 + more)
        columns = [None if v is None else ColumnLoader(context, v, ahead) for v in (weight, bias)]
        row = Row(context, residual, y, residual_out, rstd, mean)
        row.request()
        for vector in columns:
            if const_expr(vector is not None):
                vector.request()
        row.wait()
        row.settle(self.layer, quick, self.eps)

        for turn in cutlass.range_constexpr(config.vectors_per_thread):
            row.store(turn, *(None if vector is None else vector.values(turn) for vector in columns))
        row.store_statistics()


def weights_ahead(config: RowTileConfig, layer: bool, tiles: int = 1) -> int:
    """Turns of weights that are requested before their row is there: with more registers a multiprocessor has fewer CTAs.

    tiles  matrices that are read
    Measured on an H200 (docs/notes/performance.md).
    """
    turns, is_alone = config.vectors_per_thread, config.cluster == 1
    if config.keep == "registers" and layer:
        is_narrow = config.itemsize == 2 or config.resident or config.threads <= LAYER_ROW_THREADS
        return layer_ahead(config) if tiles == 1 and is_alone and is_narrow else 0
    if config.keep == "registers":
        is_tight = not config.aligned and turns > REGISTER_TURNS and config.cluster <= SAFE_CLUSTER
        return 0 if config.threads >= WIDE_ROW_THREADS else REGISTER_TURNS * is_alone if is_tight else turns
    if config.keep == "shared" and config.aligned and turns <= LONG_TURNS:
        return turns
    if config.keep == "shared" and not config.aligned:
        return FEW_TURNS[config.threads > LAYER_THREADS] if layer else 3 + (turns > LONG_TURNS)
    return FEW_TURNS[config.threads > FEW_THREADS]


def layer_ahead(config: RowTileConfig) -> int:
    """`weights_ahead` of a LayerNorm in registers of one CTA: half of its turns, two at most, and few or none that are spilled."""
    turns, least = config.vectors_per_thread, int(config.aligned)
    most = LAYER_TURNS if config.aligned or config.alike else 1
    if config.resident and config.itemsize == 2:
        most = min(most, max(least, (registers(config) - 32 - 4 * turns) // 8))
    return min(most, turns // 2 if turns > LAYER_TURNS else least)


def registers(config: RowTileConfig) -> int:
    """Of a thread, if a multiprocessor, which has four parts, has as many CTAs as are to be resident."""
    return REGISTERS // 4 // (WARP * ceil_div(config.resident * config.threads // WARP, 4)) // 8 * 8


class Row:
    """A thread's part of a row from its loads to its stores."""

    def __init__(self, context: RowContext, residual, y, residual_out, rstd, mean):
        self.context, self.loaders = context, [context.x]
        if residual is not None:
            self.loaders.append(RowLoader(context, residual, context.extra_sX[0]))
        self.out = RowStorer(context, y)
        self.total = None if residual_out is None else RowStorer(context, residual_out)
        self.rstd, self.mean = rstd, mean
        # One more instruction per value, for a deviation that is itself an output.
        self.exact = rstd is not None and context.config.itemsize == 4 and context.config.peers > 1
        self.centre: Float32 | None = None

    def request(self):
        for loader in self.loaders:
            loader.request()

    def wait(self):
        for loader in self.loaders:
            loader.wait()

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` of x, or of x + residual, as float32."""
        return self._sum([loader.values(turn) for loader in self.loaders])

    def again(self, turn: int) -> cute.TensorSSA:
        """The same for the last time. A float32 sum takes no more registers than two 16-bit terms, so it is kept."""
        alone = len(self.loaders) == 1
        return self._sum([loader.again(turn, convert=alone) for loader in self.loaders])

    @staticmethod
    def _sum(values: list[cute.TensorSSA]) -> cute.TensorSSA:
        return values[0] if len(values) == 1 else values[0] + values[1]

    def settle(self, layer: bool, quick: bool, eps: float):
        """The row's scale and, for LayerNorm, its centre."""
        context = self.context
        if layer:
            self.centre, square = (quick_moments if quick else moments)(self, context)
        else:
            square = mean_square(self, context)
        self.scale = cute.math.rsqrt(square + eps, fastmath=True)
        # 16-bit values are rounded more coarsely than the product, so one instruction serves.
        self.shift = -self.centre * self.scale if layer and context.config.itemsize == 2 else None

    def store(self, turn: int, weight: cute.TensorSSA | None, bias: cute.TensorSSA | None):
        """Vector number `turn`, normalised and scaled, and the sum that it comes from."""
        value = self.again(turn)
        if self.total is not None:
            self.total.store(turn, value)
        if self.shift is not None:
            value = value * self.scale + self.shift
        else:
            value = (value if self.centre is None else value - self.centre) * self.scale
        value = value if weight is None else value * weight
        self.out.store(turn, value if bias is None else value + bias)

    def store_statistics(self):
        if self.rstd is not None:
            self.context.store_row(self.rstd, self.scale)
        if self.mean is not None:
            self.context.store_row(self.mean, self.centre)


@cute.jit
def mean_square(row: Row, context: RowContext) -> Float32:
    """The mean of t^2 over a row. Columns outside the row were filled with 0."""
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        value = row.values(turn)
        total = (value * value).reduce(ADD, total, 0)
    return row_reduce(total, ADD, context.reduction) * (1 / context.config.columns)


@cute.jit
def quick_moments(row: Row, context: RowContext) -> tuple[Float32, Float32]:
    """`moments` for outputs of 16 bits, by one exchange of sums of t and t^2 where QUICK holds, and by two elsewhere."""
    config, reduction = context.config, context.reduction
    share = const_expr(1 / config.columns)
    total, square = Float32(0.0), Float32(0.0)
    for turn in cutlass.range_constexpr(config.vectors_per_thread):
        value = row.values(turn)
        total, square = value.reduce(ADD, total, 0), (value * value).reduce(ADD, square, 0)
    sums = tuple(warp_reduce(value, ADD, config.group) for value in (total, square))
    if const_expr(config.peers > 1):
        reduction.exchange((*sums, Float32(0.0), Float32(0.0)), 0)
        found = (reduction.gather(which, 0, 0.0).reduce(ADD, Float32(0.0), 0) for which in range(2))
        sums = tuple(warp_reduce(value, ADD, reduction.reach) for value in found)
    mean = sums[0] * share
    square = sums[1] * share - mean * mean
    is_quick = mean * mean <= QUICK * square
    if not is_quick:
        if const_expr(config.peers > 1):
            cute.arch.sync_threads()  # all have taken the sums
        mean, square = moments(row, context)
    return mean, square


@cute.jit
def moments(row: Row, context: RowContext) -> tuple[Float32, Float32]:
    """(mean, mean squared distance from it) of a row, in which the warps exchange their parts."""
    part = moments_of(row, context)
    if const_expr(context.config.peers > 1):
        context.reduction.send(part, 0)
    return merge(part, context.reduction, context.config.columns, row.exact)


@cute.jit
def moments_of(row: Row, context: RowContext) -> Part:
    """The part of a row that a warp holds. Columns outside the row were filled with 0."""
    config = context.config
    turns = const_expr(config.vectors_per_thread)
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(turns):
        total = row.values(turn).reduce(ADD, total, 0)
    total = warp_reduce(total, ADD, config.group)
    count = columns_of_warp(context)
    centre = part_mean(total, count)
    square, rest = Float32(0.0), Float32(0.0)
    for turn in cutlass.range_constexpr(turns):
        distance = context.masked(turn, row.values(turn) - centre)
        square = (distance * distance).reduce(ADD, square, 0)
        if const_expr(row.exact):
            rest = distance.reduce(ADD, rest, 0)
    if const_expr(row.exact):
        rest = warp_reduce(rest, ADD, config.group)
    return total, warp_reduce(square, ADD, config.group), count, rest


@cute.jit
def columns_of_warp(context: RowContext) -> Float32:
    """The number of the row's columns that this warp holds."""
    config = context.config
    if const_expr(config.peers == 1):
        return Float32(config.columns)
    if const_expr(config.is_even):
        return Float32(config.group * config.vectors_per_thread * config.vector)
    count, place, end = Int32(0), context.tXcX[0][1], config.cta_vectors * config.vector
    shift, first = context.column - place, place - context.tidx % WARP * config.vector
    for turn in cutlass.range_constexpr(config.vectors_per_thread):
        begin = first + turn * (config.threads_per_row * config.vector)
        last = cutlass.min(cutlass.min(begin + WARP * config.vector, end) + shift, config.columns)
        count += cutlass.max(last - cutlass.max(begin + shift, 0), 0)
    return Float32(count)


def part_mean(total: Float32, count: Float32) -> Float32:
    """The mean of a part; 0 for a part without values."""
    return total / cute.arch.fmax(count, 1.0)


@cute.jit
def merge(part: Part, reduction: Reduction, columns: int, exact: cutlass.Constexpr[bool]) -> tuple[Float32, Float32]:
    """(mean, mean squared distance from it) of a row of `columns` values; each warp has sent its part.

    exact  the parts have rests
    """
    total, square, _, _ = part
    mean = total * (1 / columns)
    if const_expr(reduction.config.peers > 1):
        reduction.receive(0)
        totals, squares, counts = (reduction.gather(which, 0, 0.0) for which in range(3))
        mean = warp_reduce(totals.reduce(ADD, Float32(0.0), 0), ADD, reduction.reach) * (1 / columns)
        rests = reduction.gather(3, 0, 0.0) if exact else None
        square = Float32(0.0)
        for slot in cutlass.range_constexpr(cute.size(totals.shape)):
            apart = part_mean(totals[slot], counts[slot]) - mean
            moved = counts[slot] * apart
            if const_expr(exact):
                moved = moved + 2.0 * rests[slot]
            square = square + squares[slot] + moved * apart
        square = warp_reduce(square, ADD, reduction.reach)
    return mean, square * (1 / columns)
