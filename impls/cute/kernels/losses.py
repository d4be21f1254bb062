"""Cross-entropy over rows with its gradient, and the gradient alone: load -> max -> exp -> sum -> loss -> normalise -> store."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32, Int64, const_expr

from ..htile.config import RowTileConfig
from ..htile.launch import launch_rows, overlap
from ..htile.online import merge, normalised, rescale
from ..htile.reduce import ADD, MAX, Reduction, warp_reduce
from ..htile.rows import RowContext, RowStorer
from .softmax import Powers


class Loss:
    """The loss of each row x of logits for its target, its gradient, or both; a callable for `cute.compile`.

    lse     = log(sum(exp(x)))
    loss    = (1 - smoothing) * (lse - x[target]) + smoothing * (lse - mean(x)) + z * lse^2
    dlogits = softmax(x) * (1 + 2 * z * lse) - smoothing / columns, and 1 - smoothing less at the target

    logits and dlogits are (rows, columns), target (rows,) int64, loss (rows,) float32. Both are 0 where the target is `ignore`;
    another negative target is 0, and a row whose target is no column has no loss.
    """

    def __init__(self, config: RowTileConfig, ignore: int, smoothing: float, z: float):
        self.config, self.ignore, self.smoothing, self.z = config, ignore, smoothing, z

    @cute.jit
    def finish(
        self, goal: Target, loss: cute.Tensor, logit: Float32, reduction: Reduction, base: Float32, total: Float32, even: Float32
    ) -> tuple[Float32, Float32, Float32]:
        """Write the loss, from each warp's base and sum and each thread's share of the mean; the row's base, sum and lse."""
        smoothing, z = self.smoothing, self.z
        if const_expr(smoothing > 0):
            even = warp_reduce(even, ADD, self.config.group)
            base, total = merge(base, total, reduction, (even, even))
            if const_expr(self.config.peers > 1):
                even = reduction.gather(2, 0, 0.0).reduce(ADD, Float32(0.0), 0)
                even = warp_reduce(even, ADD, reduction.reach)
        else:
            base, total = merge(base, total, reduction)

        logarithm = cute.math.log(total, fastmath=True)
        lse = base + logarithm
        value = (1.0 - smoothing) * (base - logit + logarithm)
        if const_expr(smoothing > 0):
            value = value + smoothing * lse - even
        goal.write(loss, value + z * lse * lse if const_expr(z > 0) else value)
        return base, total, lse


class CrossEntropyBoth(Loss):
    """The loss, and the gradient of a row that stays until then."""

    @cute.jit
    def __call__(self, logits, target, loss, dlogits, stream):
        launch_rows(self.kernel(logits, target, loss, dlogits), self.config, logits.shape[0], stream)

    @cute.kernel
    def kernel(self, logits, target, loss, dlogits):
        overlap()
        config, smoothing, z = self.config, self.smoothing, self.z
        context = RowContext(config, logits, fill=-Float32.inf, width=4 if smoothing else 2)
        row, goal = context.x, Target(context, target, self.ignore)
        row.request()
        logit = goal.read(logits)
        row.wait()

        maximum, even = -Float32.inf, Float32(0.0)
        for turn in cutlass.range_constexpr(config.vectors_per_thread):
            values = row.values(turn)
            maximum = values.reduce(MAX, maximum, 0)
            if const_expr(smoothing > 0):
                even = context.masked(turn, values * (smoothing / config.columns)).reduce(ADD, even, 0)
        maximum = warp_reduce(maximum, MAX, config.group)

        powers = Powers(context, row, maximum, dlogits.element_type, log=False)
        total = warp_reduce(powers.total(), ADD, config.group)
        base, total, lse = self.finish(goal, loss, logit, context.reduction, powers.base, total, even)
        grown, out = 1.0 + 2.0 * z * lse, RowStorer(context, dlogits)
        scale, less = powers.scale(base, total) * grown, smoothing / config.columns
        for turn in cutlass.range_constexpr(config.vectors_per_thread):
            power = powers.normalised(turn, base, scale)
            out.store(turn, goal.counted(power - less if const_expr(smoothing > 0) else power))
        right = rescale(logit, base) * cute.arch.rcp_approx(total) * grown
        goal.patch(dlogits, right - (less + 1.0 - smoothing))


class CrossEntropyBackward(Loss):
    """The gradient from lse and dloss, (rows,) float32, by which it is multiplied."""

    @cute.jit
    def __call__(self, logits, target, lse, dloss, dlogits, stream):
        launch_rows(self.kernel(logits, target, lse, dloss, dlogits), self.config, logits.shape[0], stream)

    @cute.kernel
    def kernel(self, logits, target, lse, dloss, dlogits):
        overlap()
        context = RowContext(self.config, logits, fill=None)
        row, out = context.x, RowStorer(context, dlogits)
        goal = Target(context, target, self.ignore)
        base, weight = goal.value(lse), goal.value(dloss)
        row.request()
        logit = goal.read(logits)
        row.wait()

        scale, less = (1.0 + 2.0 * self.z * base) * weight, self.smoothing / self.config.columns
        for turn in cutlass.range_constexpr(self.config.vectors_per_thread):
            power = normalised(row.again(turn), base, scale, dlogits.element_type)
            out.store(turn, goal.counted(power - less * weight if const_expr(self.smoothing > 0) else power))
        goal.patch(dlogits, rescale(logit, base) * scale - (less + 1.0 - self.smoothing) * weight)


class Target:
    """The target of this thread's row. The thread that has its column reads the logit there, and writes what is one per row."""

    def __init__(self, context: RowContext, target: cute.Tensor, ignore: int):
        config, (rows, columns) = context.config, context.shape
        self.row = cutlass.min(context.row, rows - 1)
        index = target[self.row]
        self.ignored = index == ignore
        self.column = Int32(cutlass.max(index, Int64(0)))
        rank, thread = config.place(self.column + context.shift)
        is_here = (rank == context.rank) & (thread == context.tidx % config.threads_per_row)
        self.is_mine: Boolean = context.row_in_bounds & (index < columns) & is_here

    def value(self, vector: cute.Tensor) -> Float32:
        """The row's element of (rows,)."""
        return vector[self.row]

    @cute.jit
    def read(self, matrix: cute.Tensor) -> Float32:
        """The logit of the target, in its thread."""
        value, row, column, is_mine = Float32(0.0), self.row, self.column, self.is_mine
        if is_mine:
            value = Float32(matrix[row, column])
        return value

    @cute.jit
    def write(self, vector: cute.Tensor, value: Float32):
        """Write the row's element of (rows,) float32."""
        row, is_mine = self.row, self.is_mine
        if is_mine:
            vector[row] = cutlass.select_(self.ignored, Float32(0.0), value)

    @cute.jit
    def patch(self, matrix: cute.Tensor, value: Float32):
        """Write what is right at the target's column over what this thread has stored there."""
        row, column, is_counted = self.row, self.column, self.is_mine & ~self.ignored
        if is_counted:
            matrix[row, column] = matrix.element_type(value)

    @cute.jit
    def counted(self, values: cute.TensorSSA) -> cute.TensorSSA:
        """A vector of the gradient, 0 in a row that is ignored."""
        kept, ignored = cute.make_rmem_tensor(values.shape, Float32), self.ignored
        kept.store(values)
        if ignored:
            kept.fill(Float32(0.0))
        return kept.load()
