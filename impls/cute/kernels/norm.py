"""RMSNorm and LayerNorm over rows: load -> (mean ->) mean square -> normalise -> scale -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from ..htile.compute.reduce import ADD, row_reduce
from ..htile.config import ElementwiseTileConfig
from ..htile.dataflow import ElementwiseKernelContext, ElementwiseLoader, ElementwiseStorer
from ..htile.launch import launch_rows, overlap
from ..htile.vectors import ColumnLoader, store_row

WIDE_ROW_THREADS = 512


class Norm:
    """A norm over the rows of t = x, or t = x + residual in float32; a callable for `cute.compile`.

    RMSNorm    y = t * rstd * weight + bias            rstd = rsqrt(mean(t^2) + eps)
    LayerNorm  y = (t - mean) * rstd * weight + bias   rstd = rsqrt(mean((t - mean)^2) + eps)

    layer    LayerNorm: the variance in a second pass over what the first has brought, since mean(t^2) - mean^2 loses it
             where the mean is large
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
        context.setup(x, fill=0.0, stage=2 if self.layer else 1, extra_smem_tensors=0 if residual is None else 1)
        terms = Terms(context, residual)
        affine = Affine(context, weight, bias, self.delayed)
        out = ElementwiseStorer(context, y)
        total = None if residual_out is None else ElementwiseStorer(context, residual_out)
        terms.request()
        affine.request()
        terms.wait()

        centre = mean_of(terms, context) if const_expr(self.layer) else None
        scale = cute.math.rsqrt(mean_square(terms, centre, context) + self.eps, fastmath=True)

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
def mean_of(terms: Terms, context: ElementwiseKernelContext) -> Float32:
    """The mean of a row. Columns outside the row were filled with 0."""
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        total = terms.values(turn).reduce(ADD, total, 0)
    return row_reduce(total, ADD, context.reduction, stage=0) * (1 / context.config.columns)


@cute.jit
def mean_square(terms: Terms, centre: Float32 | None, context: ElementwiseKernelContext) -> Float32:
    """The mean of (t - centre)^2 over a row. Columns outside it were filled with 0, which is not their distance."""
    total = Float32(0.0)
    for turn in cutlass.range_constexpr(context.config.vectors_per_thread):
        value = centred(terms.values(turn), centre)
        if const_expr(centre is not None):
            value = context.masked(turn, value)
        total = (value * value).reduce(ADD, total, 0)
    last = const_expr(context.reduction.shape.stage - 1)
    return row_reduce(total, ADD, context.reduction, stage=last) * (1 / context.config.columns)
