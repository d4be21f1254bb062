"""Softmax, masked or not, its gradient, RMSNorm and LayerNorm over dense rows of which a CTA has many: `htile/packing.py`.

The arithmetic is that of the kernels of the same names, without exchanges between CTAs.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from ..htile.launch import launch_packed, overlap
from ..htile.online import exponential, lowered, reaches_subnormals, reference
from ..htile.packed import PackedContext, Stretch, Units, arrive, bring, fold, held, request, write
from ..htile.packing import PackedTileConfig
from ..htile.reduce import ADD, MAX
from ..htile.registers import VectorRegTile, widened
from .masks import masked, store_undefined


class Softmax:
    """`softmax.Softmax` for x and y of one dtype."""

    def __init__(self, config: PackedTileConfig):
        self.config = config

    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, stream):
        launch_packed(self.kernel(x, y), self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor, y: cute.Tensor):
        overlap()
        context = PackedContext(self.config, x, stage=2)
        stretch = context.stretch(x)
        bring(context, (stretch,))
        for number in cutlass.range(self.config.passes, unroll=1):
            softmax(context, stretch, number)
        write(context, (stretch,), (y,))


@cute.jit
def softmax(context: PackedContext, stretch: Stretch, number: Int32):
    """Row `number` of this thread."""
    units = stretch.units(context.row(number), -Float32.inf)
    share(context, held(context.config, units.values), units)


@cute.jit
def share(context: PackedContext, row: VectorRegTile, out: Units) -> Float32:
    """Write the softmax of this thread's part of a row; the sum of its exponentials."""
    config, dtype = context.config, out.dtype
    base = lowered(reference(fold(context, row.values, MAX, -Float32.inf)), dtype)
    powers = held(config, lambda turn: exponential(row.values(turn), base, reaches_subnormals(dtype)))
    total = fold(context, powers.values, ADD, Float32(0.0), 1)
    scale = cute.arch.rcp_approx(total)
    for turn in cutlass.range_constexpr(config.turns):
        out.store(turn, powers.values(turn) * scale)
    return total


class MaskedSoftmax:
    """`masks.MaskedSoftmax` for x and y of one dtype, and a mask of that or of uint8."""

    def __init__(self, config: PackedTileConfig, scale: float):
        self.config, self.scale = config, scale

    @cute.jit
    def __call__(self, x: cute.Tensor, mask: cute.Tensor, y: cute.Tensor, stream):
        launch_packed(self.kernel(x, mask, y), self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor, mask: cute.Tensor, y: cute.Tensor):
        overlap()
        context = PackedContext(self.config, x, stage=2)
        stretches = context.stretch(x), context.stretch(mask)
        bring(context, stretches)
        for number in cutlass.range(self.config.passes, unroll=1):
            masked_softmax(context, stretches, number, self.scale)
        write(context, stretches[:1], (y,))


@cute.jit
def masked_softmax(context: PackedContext, stretches: tuple, number: Int32, scale: cutlass.Constexpr[float]):
    x, mask = (stretch.units(context.row(number)) for stretch in stretches)
    logits = held(context.config, lambda turn: x.masked(turn, masked(widened(x.read(turn)), mask.read(turn), scale), -Float32.inf))
    is_number = share(context, logits, x) > 0
    if not is_number:
        store_undefined(x, mask.read, context.config.turns)


class SoftmaxBackward:
    """`softmax_backward.SoftmaxBackward`."""

    def __init__(self, config: PackedTileConfig):
        self.config = config

    @cute.jit
    def __call__(self, dy: cute.Tensor, y: cute.Tensor, dx: cute.Tensor, stream):
        launch_packed(self.kernel(dy, y, dx), self.config, dy.shape[0], stream)

    @cute.kernel
    def kernel(self, dy: cute.Tensor, y: cute.Tensor, dx: cute.Tensor):
        overlap()
        context = PackedContext(self.config, dy)
        stretches = context.stretch(dy), context.stretch(y)
        bring(context, stretches)
        for number in cutlass.range(self.config.passes, unroll=1):
            softmax_backward(context, stretches, number)
        write(context, stretches[:1], (dx,))


@cute.jit
def softmax_backward(context: PackedContext, stretches: tuple, number: Int32):
    gradient, share = (stretch.units(context.row(number)) for stretch in stretches)
    dy, y = (held(context.config, units.values) for units in (gradient, share))
    total = fold(context, lambda turn: dy.values(turn) * y.values(turn), ADD, Float32(0.0))
    for turn in cutlass.range_constexpr(context.config.turns):
        gradient.store(turn, (dy.values(turn) - total) * y.values(turn))


class Norm:
    """`norm.Norm`, with all matrices in one dtype."""

    def __init__(self, config: PackedTileConfig, layer: bool, eps: float):
        self.config, self.layer, self.eps = config, layer, eps

    @cute.jit
    def __call__(self, x, weight, bias, residual, y, residual_out, rstd, mean, stream):
        kernel = self.kernel(x, weight, bias, residual, y, residual_out, rstd, mean)
        launch_packed(kernel, self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x, weight, bias, residual, y, residual_out, rstd, mean):
        overlap()
        context = PackedContext(self.config, x, stage=2)
        matrices = (x,) if const_expr(residual is None) else (x, residual)
        stretches = tuple(context.stretch(matrix) for matrix in matrices)
        request(context, stretches)
        terms = context.columns(weight), context.columns(bias)
        arrive(context)
        for number in cutlass.range(self.config.passes, unroll=1):
            normalise(self, context, stretches, number, terms, (rstd, mean))
        if const_expr(residual_out is None):
            write(context, stretches[:1], (y,))
        else:
            write(context, stretches, (y, residual_out))


@cute.jit
def normalise(norm: Norm, context: PackedContext, stretches: tuple, number: Int32, terms: tuple, statistics: tuple):
    row = context.row(number)
    inputs = [stretch.units(row) for stretch in stretches]
    weight, bias = terms
    config, out, share = context.config, inputs[0], 1 / context.config.columns
    total = held(config, lambda turn: sum((part.values(turn) for part in inputs[1:]), out.values(turn)))
    centre, apart = Float32(0.0), total
    if const_expr(norm.layer):
        centre = fold(context, total.values, ADD, Float32(0.0)) * share
        apart = held(config, lambda turn: out.masked(turn, total.values(turn) - centre))
    square = fold(context, lambda turn: apart.values(turn) * apart.values(turn), ADD, Float32(0.0), 1)
    scale = cute.math.rsqrt(square * share + norm.eps, fastmath=True)
    for turn in cutlass.range_constexpr(config.turns):
        for residual in inputs[1:]:
            residual.store(turn, total.values(turn))
        value = apart.values(turn) * scale
        value = value if weight is None else value * weight.values(turn)
        out.store(turn, value if bias is None else value + bias.values(turn))
    for vector, value in zip(statistics, (scale, centre), strict=True):
        context.store_row(vector, row, value)
