"""softmax over rows: load -> max -> exp -> sum -> normalise -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from ..htile.compute.online import merge
from ..htile.compute.reduce import ADD, MAX, row_reduce, warp_reduce
from ..htile.config import ElementwiseTileConfig
from ..htile.dataflow import ElementwiseKernelContext, ElementwiseStorer
from ..htile.launch import launch_rows, overlap
from ..htile.powers import Powers


class Softmax:
    """softmax over the rows of x (rows, columns), written to y; a callable for `cute.compile`.

    online  one exchange of (max, sum) pairs between warps and CTAs, in place of one for each
    """

    def __init__(self, config: ElementwiseTileConfig, online: bool = True, pdl: bool = False) -> None:
        self.config = config
        self.pdl = pdl
        self.online = online

    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, stream: object) -> None:
        launch_rows(self.kernel(x, y), self.config, x.shape[0], stream, self.pdl)

    @cute.kernel
    def kernel(self, x: cute.Tensor, y: cute.Tensor) -> None:
        overlap(self.pdl)
        context = ElementwiseKernelContext(self.config)
        online = const_expr(self.online)
        context.setup(x, fill=-Float32.inf, stage=1 if online else 2, width=2 if online else 1)
        row, out = context.x, ElementwiseStorer(context, y)
        row.load()
        turns = const_expr(self.config.vectors_per_thread)

        maximum = -Float32.inf
        for turn in cutlass.range_constexpr(turns):
            maximum = row.values(turn).reduce(MAX, maximum, 0)
        if const_expr(online):
            maximum = warp_reduce(maximum, MAX, self.config.group)
        else:
            maximum = row_reduce(maximum, MAX, context.reduction, stage=0)

        powers = Powers(context, row, maximum, y.element_type)
        total = powers.total()
        if const_expr(online):
            total = warp_reduce(total, ADD, self.config.group)
            base, total = merge(powers.base, total, context.reduction)
        else:
            base, total = powers.base, row_reduce(total, ADD, context.reduction, stage=1)

        scale = powers.scale(base, total)
        for turn in cutlass.range_constexpr(turns):
            out.store(turn, powers.normalised(turn, base, scale))
