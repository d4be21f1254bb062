"""The gradient of softmax over rows, or of its logarithm: load -> multiply, sum -> subtract, scale -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from ..htile.config import RowTileConfig
from ..htile.launch import launch_rows, overlap
from ..htile.online import exponential
from ..htile.reduce import ADD, row_reduce
from ..htile.rows import RowContext, RowLoader, RowStorer


class SoftmaxBackward:
    """dx = (dy - sum(dy * y)) * y for rows of dy, y and dx (rows, columns); a callable for `cute.compile`.

    y is softmax's output. dy and y have one dtype, float16, bfloat16 or float32, and dx one of these. Sums are float32, and so
    is dy less its sum: beyond 1.7e38 it may overflow although its product with y would not.

    log  y is log_softmax's output, and dx = dy - exp(y) * sum(dy)
    """

    def __init__(self, config: RowTileConfig, log: bool = False):
        self.config, self.log = config, log

    @cute.jit
    def __call__(self, dy: cute.Tensor, y: cute.Tensor, dx: cute.Tensor, stream):
        launch_rows(self.kernel(dy, y, dx), self.config, dy.shape[0], stream)

    @cute.kernel
    def kernel(self, dy: cute.Tensor, y: cute.Tensor, dx: cute.Tensor):
        overlap()
        context = RowContext(self.config, dy, extra_smem_tensors=1)
        gradient, share = context.x, RowLoader(context, y, context.extra_sX[0])
        out = RowStorer(context, dx)
        gradient.request()
        share.request()
        gradient.wait()
        share.wait()
        turns = const_expr(self.config.vectors_per_thread)

        total = Float32(0.0)
        for turn in cutlass.range_constexpr(turns):
            term = gradient.values(turn)
            term = term if const_expr(self.log) else term * share.values(turn)
            total = term.reduce(ADD, total, 0)
        total = row_reduce(total, ADD, context.reduction)

        for turn in cutlass.range_constexpr(turns):
            dy, y = gradient.again(turn, convert=True), share.again(turn, convert=True)
            if const_expr(self.log):
                out.store(turn, dy - exponential(y, Float32(0.0)) * total)
            else:
                out.store(turn, (dy - total) * y)
