"""RMSNorm and LayerNorm over rows: load -> mean square, or mean and variance -> normalise -> scale -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from ..htile.compute import moments
from ..htile.compute.reduce import ADD, row_reduce, warp_reduce
from ..htile.config import ElementwiseTileConfig
from ..htile.dataflow import ElementwiseKernelContext, ElementwiseLoader, ElementwiseStorer
from ..htile.launch import beside, launch_rows, overlap
from ..htile.vectors import ColumnLoader, store_row

WIDE_ROW_THREADS = 512


class Norm:
    """A norm over the rows of t = x, or t = x + residual in float32; a callable for `cute.compile`.

    RMSNorm    y = t * rstd * weight + bias            rstd = rsqrt(mean(t^2) + eps)
    LayerNorm  y = (t - mean) * rstd * weight + bias   rstd = rsqrt(mean((t - mean)^2) + eps)

    layer    LayerNorm: each warp's mean and its squared distances in two passes over what it holds, since
             mean(t^2) - mean^2 loses them where the mean is large; then one exchange
    delayed  ask for weight and bias only behind the reductions: fewer registers, more waiting. None: as
             `wants_late_weights` says

    x, residual, y, residual_out are (rows, columns) in one dtype, float16, bfloat16 or float32; weight and bias are
    (columns,) in that dtype or float32; rstd and mean are (rows,) float32. All but x and y may be None. y comes from t
    before it is rounded to residual_out. Squares are float32, as in torch: rows whose sum of t^2 is beyond 3.4e38 come out as
    0 or NaN. Raises ValueError for a mean asked of RMSNorm, and for a residual where a thread
    has several rows.
    """

    def __init__(
        self, config: ElementwiseTileConfig, layer: bool, eps: float, delayed: bool | None = None, pdl: bool = False
    ) -> None:
        self.config = config
        self.layer = layer
        self.eps = eps
        self.delayed = wants_late_weights(config, layer) if delayed is None else delayed
        self.pdl = pdl

    @cute.jit
    def __call__(
        self,
        x: cute.Tensor,
        weight: cute.Tensor | None,
        bias: cute.Tensor | None,
        residual: cute.Tensor | None,
        y: cute.Tensor,
        residual_out: cute.Tensor | None,
        rstd: cute.Tensor | None,
        mean: cute.Tensor | None,
        stream: object,
    ) -> None:
        if const_expr(mean is not None and not self.layer):
            raise ValueError("RMSNorm has no mean")
        if const_expr(self.config.rows_per_thread > 1 and residual is not None):
            raise ValueError("several rows a thread, and a residual")
        kernel = self.kernel(x, weight, bias, residual, y, residual_out, rstd, mean)
        launch_rows(kernel, self.config, x.shape[0], stream, self.pdl)

    @cute.kernel
    def kernel(
        self,
        x: cute.Tensor,
        weight: cute.Tensor | None,
        bias: cute.Tensor | None,
        residual: cute.Tensor | None,
        y: cute.Tensor,
        residual_out: cute.Tensor | None,
        rstd: cute.Tensor | None,
        mean: cute.Tensor | None,
    ) -> None:
        overlap(self.pdl)
        context = ElementwiseKernelContext(self.config)
        width = moments.WIDTH if self.layer else 1
        config = self.config
        more = config.rows_per_thread - 1 if residual is None else 1
        context.setup(x, fill=0.0, stage=config.rows_per_thread, width=width, extra_smem_tensors=more)
        affine = Affine(context, weight, bias, self.delayed)
        tensors = (x, residual, y, residual_out, rstd, mean)
        rows = [Row(context, n, *(beside(t, n, config) for t in tensors)) for n in range(config.rows_per_thread)]
        for row in rows:
            row.request()
        affine.request()
        for row in rows:
            row.wait()

        for row in rows:
            row.measure(self.layer)
        for row in rows:
            row.settle(self.layer, self.eps)

        for turn in cutlass.range_constexpr(config.vectors_per_thread):
            scales = affine.at(turn)
            for row in rows:
                row.store(turn, *scales)
        for row in rows:
            row.store_statistics()


def wants_late_weights(config: ElementwiseTileConfig, layer: bool) -> bool:
    """Whether the registers of early weights keep CTAs from the multiprocessor, as measured (docs/notes/performance.md)."""
    if config.keep == "registers":
        return layer or config.threads_per_row >= WIDE_ROW_THREADS
    return config.keep == "l1"


class Row:
    """One row of a thread from its loads to its stores; number: among the thread's rows."""

    def __init__(
        self,
        context: ElementwiseKernelContext,
        number: int,
        x: cute.Tensor,
        residual: cute.Tensor | None,
        y: cute.Tensor,
        residual_out: cute.Tensor | None,
        rstd: cute.Tensor | None,
        mean: cute.Tensor | None,
    ) -> None:
        self.context, self.stage = context, number
        self.loaders = [context.x if number == 0 else ElementwiseLoader(context, x, context.extra_sX[number - 1])]
        if residual is not None:
            self.loaders.append(ElementwiseLoader(context, residual, context.extra_sX[0]))
        self.out = ElementwiseStorer(context, y)
        self.total = None if residual_out is None else ElementwiseStorer(context, residual_out)
        self.rstd, self.mean = rstd, mean
        # An instruction a value, for a deviation that is returned itself.
        self.exact = rstd is not None and context.config.itemsize == 4 and context.config.peers > 1
        self.centre: Float32 | None = None

    def request(self) -> None:
        for loader in self.loaders:
            loader.request()

    def wait(self) -> None:
        for loader in self.loaders:
            loader.wait()

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` of x, or of x + residual, as float32."""
        return self._sum([loader.values(turn) for loader in self.loaders])

    def again(self, turn: int) -> cute.TensorSSA:
        """The same for the last time. A sum in float32 takes no more registers than two terms in 16 bits: it is kept."""
        alone = len(self.loaders) == 1
        return self._sum([loader.again(turn, anew=alone) for loader in self.loaders])

    @staticmethod
    def _sum(values: list[cute.TensorSSA]) -> cute.TensorSSA:
        return values[0] if len(values) == 1 else values[0] + values[1]

    def measure(self, layer: bool) -> None:
        """What can be said of the row before its threads have heard of one another."""
        if layer:
            self.part = moments_of(self, self.context)
            moments.send(self.part, self.context.reduction, self.stage)

    def settle(self, layer: bool, eps: float) -> None:
        """The row's scale, and of LayerNorm its centre."""
        context = self.context
        if layer:
            self.centre, square = moments.merge(
                self.part, context.reduction, context.config.columns, self.stage, self.exact
            )
        else:
            square = mean_square(self, context, self.stage)
        self.scale = cute.math.rsqrt(square + eps, fastmath=True)

    def store(self, turn: int, weight: cute.TensorSSA | None, bias: cute.TensorSSA | None) -> None:
        """Vector number `turn`, normalised and scaled, and the sum that it comes from."""
        value = self.again(turn)
        if self.total is not None:
            self.total.store(turn, value)
        value = (value if self.centre is None else value - self.centre) * self.scale
        value = value if weight is None else value * weight
        self.out.store(turn, value if bias is None else value + bias)

    def store_statistics(self) -> None:
        if self.rstd is not None:
            store_row(self.context, self.rstd, self.scale)
        if self.mean is not None:
            store_row(self.context, self.mean, self.centre)


class Affine:
    """weight and bias, each of which may be absent."""

    def __init__(
        self, context: ElementwiseKernelContext, weight: cute.Tensor | None, bias: cute.Tensor | None, delayed: bool
    ) -> None:
        self.loaders = [None if v is None else ColumnLoader(context, v, delayed) for v in (weight, bias)]

    def request(self) -> None:
        for loader in self.loaders:
            if loader is not None:
                loader.request()

    def at(self, turn: int) -> tuple[cute.TensorSSA | None, ...]:
        """(weight, bias) for vector number `turn`."""
        return tuple(None if loader is None else loader.values(turn) for loader in self.loaders)


@cute.jit
def mean_square(row: Row, context: ElementwiseKernelContext, stage: cutlass.Constexpr[int]) -> Float32:
    """The mean of t^2 over a row. Columns outside it were filled with 0."""
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        value = row.values(turn)
        total = (value * value).reduce(ADD, total, 0)
    return row_reduce(total, ADD, context.reduction, stage) * (1 / context.config.columns)


@cute.jit
def moments_of(row: Row, context: ElementwiseKernelContext) -> moments.Part:
    """The part of a row that a warp holds. Columns outside the row were filled with 0."""
    config = context.config
    turns = const_expr(config.vectors_per_thread)
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(turns):
        total = row.values(turn).reduce(ADD, total, 0)
    total = warp_reduce(total, ADD, config.group)
    count = columns_of_warp(context)
    centre = moments.part_mean(total, count)
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
def columns_of_warp(context: ElementwiseKernelContext) -> Float32:
    """How many of the row's columns the threads of this warp that share the row hold."""
    config = context.config
    if const_expr(config.peers == 1):
        return Float32(config.columns)
    if const_expr(config.is_even):
        return Float32(config.group * config.vectors_per_thread * config.vector)
    count = Float32(0.0)
    for turn in cutlass.range_constexpr(config.vectors_per_thread):
        ones = cute.make_rmem_tensor(config.vector, Float32)
        ones.fill(Float32(1.0))
        count = context.masked(turn, ones.load()).reduce(ADD, count, 0)
    return warp_reduce(count, ADD, config.group)
