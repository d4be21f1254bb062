"""Softmax of what a row sees, under a mask; 0 elsewhere: load -> hide -> softmax's steps -> store."""

from __future__ import annotations

import math
from collections.abc import Callable

import cutlass.cute as cute
from cutlass import Float32

from ..htile.config import RowTileConfig
from ..htile.launch import launch_rows, overlap
from ..htile.registers import where, widened
from ..htile.rows import RowContext, RowLoader, RowStorer
from .softmax import softmax


class MaskedSoftmax:
    """y = softmax(scale * x + mask), or softmax(scale * x) where a mask of uint8 is not 0; a callable for `cute.compile`.

    x, mask and y are (rows, columns); y is 0 where the mask is -inf, or 0.
    """

    def __init__(self, config: RowTileConfig, scale: float):
        self.config, self.scale = config, scale

    @cute.jit
    def __call__(self, x, mask, y, stream):
        launch_rows(self.kernel(x, mask, y), self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x, mask, y):
        overlap()
        context = RowContext(self.config, x, -Float32.inf, 1, 2, 1, mask.element_type)
        share(context, Masked(context, mask, self.scale), y)


@cute.jit
def share(context: RowContext, row: Masked, y: cute.Tensor):
    out = RowStorer(context, y)
    for loader in row.loaders:
        loader.request()
    for loader in row.loaders:
        loader.wait()
    is_number = softmax(context, row, out, online=True, log=False) > 0
    if not is_number:
        store_undefined(out, row.seen, context.config.vectors_per_thread)


def store_undefined(out: RowStorer, seen: Callable[[int], cute.Tensor], turns: int):
    """Write a row that sees NaN, or nothing but -inf: NaN, and 0 where the vectors `seen(turn)` are 0, or -inf of floats."""
    for turn in range(turns):
        vector = seen(turn)
        hidden = vector.element_type(-math.inf if vector.element_type.width > 8 else 0)
        undefined = cute.make_rmem_tensor(cute.size(vector), Float32)
        undefined.fill(Float32(math.nan))
        out.store(turn, where(undefined.load(), lambda i, v=vector, hidden=hidden: v[i] != hidden, 0.0))


def masked(x: cute.TensorSSA, mask: cute.Tensor, scale: float) -> cute.TensorSSA:
    """Logits of a vector, -inf where the mask hides it."""
    if mask.element_type.width > 8:
        return x * scale + widened(mask)
    return where(x * scale, lambda i: mask[i] != 0, -math.inf)


class Masked:
    """The logits of a row under a mask, for `softmax`; `seen` reads what tells `store_undefined` what is seen."""

    def __init__(self, context: RowContext, mask: cute.Tensor, scale: float):
        self.loaders, self.scale = (context.x, RowLoader(context, mask, context.extra_sX[0])), scale
        self.seen = self.loaders[1].read

    def values(self, turn: int, reuse: str = "soon") -> cute.TensorSSA:
        x, mask = (loader.vector(turn, reuse) for loader in self.loaders)
        return masked(widened(x), mask, self.scale)

    def again(self, turn: int) -> cute.TensorSSA:
        return self.values(turn, "over")
