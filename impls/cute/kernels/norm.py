"""RMSNorm and LayerNorm over rows: load -> mean square, or mean and variance -> normalise -> scale -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from ..htile.compute import moments
from ..htile.compute.reduce import ADD, row_reduce, warp_reduce
from ..htile.config import ElementwiseTileConfig
from ..htile.dataflow import ElementwiseKernelContext, ElementwiseLoader, ElementwiseStorer
from ..htile.launch import launch_rows, overlap
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
    before it is rounded to residual_out. Raises ValueError for a mean asked of RMSNorm.
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
        context.setup(x, fill=0.0, width=width, extra_smem_tensors=0 if residual is None else 1)
        terms = Terms(context, residual)
        affine = Affine(context, weight, bias, self.delayed)
        out = ElementwiseStorer(context, y)
        total = None if residual_out is None else ElementwiseStorer(context, residual_out)
        terms.request()
        affine.request()
        terms.wait()

        if const_expr(self.layer):
            centre, square = mean_and_variance(terms, context)
        else:
            centre, square = None, mean_square(terms, context)
        scale = cute.math.rsqrt(square + self.eps, fastmath=True)

        for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
            value = terms.again(turn)
            if const_expr(total is not None):
                total.store(turn, value)
            out.store(turn, affine.of(turn, centred(value, centre) * scale))
        if const_expr(rstd is not None):
            store_row(context, rstd, scale)
        if const_expr(mean is not None):
            store_row(context, mean, centre)


def wants_late_weights(config: ElementwiseTileConfig, layer: bool) -> bool:
    """Whether the registers of early weights keep CTAs from the multiprocessor, as measured (docs/performance.md)."""
    if config.keep == "registers":
        return layer or config.threads_per_row >= WIDE_ROW_THREADS
    return config.keep == "l1"


class Terms:
    """The row that is normalised: x, or x + residual in float32."""

    def __init__(self, context: ElementwiseKernelContext, residual: cute.Tensor | None) -> None:
        self.loaders = [context.x]
        if residual is not None:
            self.loaders.append(ElementwiseLoader(context, residual, context.extra_sX[0]))

    def request(self) -> None:
        for loader in self.loaders:
            loader.request()

    def wait(self) -> None:
        for loader in self.loaders:
            loader.wait()

    def values(self, turn: int) -> cute.TensorSSA:
        """Vector number `turn` as float32."""
        return self._sum([loader.values(turn) for loader in self.loaders])

    def again(self, turn: int) -> cute.TensorSSA:
        """The same for the last time. A sum in float32 takes no more registers than two terms in 16 bits: it is kept."""
        alone = len(self.loaders) == 1
        return self._sum([loader.again(turn, anew=alone) for loader in self.loaders])

    @staticmethod
    def _sum(values: list[cute.TensorSSA]) -> cute.TensorSSA:
        return values[0] if len(values) == 1 else values[0] + values[1]


class Affine:
    """weight and bias, each of which may be absent."""

    def __init__(
        self, context: ElementwiseKernelContext, weight: cute.Tensor | None, bias: cute.Tensor | None, delayed: bool
    ) -> None:
        self.weight = None if weight is None else ColumnLoader(context, weight, delayed)
        self.bias = None if bias is None else ColumnLoader(context, bias, delayed)

    def request(self) -> None:
        for loader in (self.weight, self.bias):
            if loader is not None:
                loader.request()

    def of(self, turn: int, values: cute.TensorSSA) -> cute.TensorSSA:
        """values * weight + bias for vector number `turn`."""
        if self.weight is not None:
            values = values * self.weight.values(turn)
        return values if self.bias is None else values + self.bias.values(turn)


def centred(values: cute.TensorSSA, centre: Float32 | None) -> cute.TensorSSA:
    """values - centre; None is 0."""
    return values if centre is None else values - centre


@cute.jit
def mean_square(terms: Terms, context: ElementwiseKernelContext) -> Float32:
    """The mean of t^2 over a row. Columns outside it were filled with 0."""
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        value = terms.values(turn)
        total = (value * value).reduce(ADD, total, 0)
    return row_reduce(total, ADD, context.reduction) * (1 / context.config.columns)


@cute.jit
def mean_and_variance(terms: Terms, context: ElementwiseKernelContext) -> tuple[Float32, Float32]:
    """The mean of t over a row and the mean of (t - mean)^2. Columns outside the row were filled with 0."""
    config = context.config
    turns = const_expr(config.vectors_per_thread)
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(turns):
        total = terms.values(turn).reduce(ADD, total, 0)
    total = warp_reduce(total, ADD, config.group)
    count = columns_of_warp(context)
    centre = moments.part_mean(total, count)
    square = Float32(0.0)
    for turn in cutlass.range_constexpr(turns):
        distance = context.masked(turn, terms.values(turn) - centre)
        square = (distance * distance).reduce(ADD, square, 0)
    square = warp_reduce(square, ADD, config.group)
    return moments.merge(total, square, count, context.reduction, config.columns)


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
