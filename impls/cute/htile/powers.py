"""The exponentials of a row: what is summed, and what is normalised."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from .compute.online import exponential, fraction, lowered, normalised, reaches_subnormals, reference
from .compute.reduce import ADD
from .dataflow import ElementwiseKernelContext, ElementwiseLoader


class Powers:
    """exp(x - base) of a thread's vectors, for their sum and then for an output of `dtype`.

    Where the row is in registers, its exponentials take its place. Where it is in shared memory or is read twice,
    they are computed twice: what would hold them holds further CTAs.

    base  this warp's reference, which is what its part of the sum goes by
    """

    def __init__(
        self,
        context: ElementwiseKernelContext,
        row: ElementwiseLoader,
        maximum: Float32,
        dtype: type[cutlass.Numeric],
    ) -> None:
        self.config, self.row, self.dtype = context.config, row, dtype
        self.kept = context.config.keep == "registers"
        self.base = lowered(reference(maximum), dtype) if self.kept else reference(maximum)
        self.tile = context.make_fragment(Float32) if self.kept else None

    @cute.jit
    def total(self) -> Float32:
        """The sum over this thread's vectors."""
        total = Float32(0.0)
        subnormals = const_expr(self.kept and reaches_subnormals(self.dtype))
        for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
            power = exponential(self.row.values(turn), self.base, subnormals)
            total = power.reduce(ADD, total, 0)
            if const_expr(self.kept):
                self.tile.vector(turn).store(power)
        return total

    def scale(self, base: Float32, total: Float32) -> Float32:
        """What `normalised` multiplies by, of the whole row's base and sum."""
        apart = self.kept and self.config.peers > 1
        return fraction(self.base, base, total) if apart else cute.arch.rcp_approx(total)

    def normalised(self, turn: int, base: Float32, scale: Float32) -> cute.TensorSSA:
        """Vector number `turn` of the output, for the last time."""
        if self.kept:
            return self.tile.values(turn) * scale
        return normalised(self.row.again(turn), base, scale, self.dtype)
