"""RMSNorm and LayerNorm over the last dimension, alone and after the addition of a residual.

rmsnorm         (x, weight)                  -> y                            y = x rsqrt(mean(x^2) + RMS_EPS) weight
layernorm       (x, weight, bias)            -> y                            y = (x - mean) rstd weight + bias
add_rmsnorm     (x, residual, weight)        -> y, residual_out, rstd        of x + residual
add_layernorm   (x, residual, weight, bias)  -> y, residual_out, rstd, mean  of x + residual

x and residual are (..., columns) in the case's dtype and layout; weight and bias are (columns,), contiguous, in the same
dtype. y is (..., columns) in the case's out_dtype, residual_out = x + residual rounded to the case's dtype. rstd and mean
are (rows,) with rows the product of all dimensions but the last, in float32 (float64 where the dtype is float64). With
LayerNorm rstd = rsqrt(mean((x - mean)^2) + LAYER_EPS): the variance over all columns, as in Ba, Kiros, Hinton 2016; RMSNorm is
that of Zhang, Sennrich 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from softbench.cases.operators import bounds
from softbench.cases.operators.expected import Expected, Invariant
from softbench.cases.operators.inputs import BLOCK_ELEMENTS, take_rows
from softbench.cases.operators.outputs import OutputSpec
from softbench.cases.operators.streams import Stream, Streamed
from softbench.model import Case, Tensor

RMS_EPS = 1e-6
LAYER_EPS = 1e-5
WEIGHT = Stream("weight", "columns", mean=1.0, spread=0.25)
"""One that is forgotten moves three elements in four by more than 8 %."""
BIAS = Stream("bias", "columns", spread=0.5)


@dataclass(frozen=True)
class Norm(Streamed):
    """One of the four operators of this module."""

    name: str
    centred: bool
    adds: bool

    @property
    def reads(self) -> tuple[Stream, ...]:  # type: ignore[override]
        rows, columns = (Stream("x"), Stream("residual")), (WEIGHT, BIAS)
        return (*rows[: 1 + self.adds], *columns[: 1 + self.centred])

    @property
    def writes(self) -> tuple[Stream, ...]:  # type: ignore[override]
        rows = ("rstd", "mean")[: 1 + self.centred]
        return (Stream("y"), *([Stream("residual_out"), *(Stream(name, "rows") for name in rows)] if self.adds else []))

    @property
    def eps(self) -> float:
        return LAYER_EPS if self.centred else RMS_EPS

    def ideal_flops(self, case: Case) -> int:
        """Per element: 4 for RMSNorm (square and add, scale, weight), 3 more for LayerNorm (sum, centre, bias), 1 to add."""
        return (4 + 3 * self.centred + self.adds) * case.elements

    def output_specs(self, case: Case) -> tuple[OutputSpec, ...]:
        """In the order of the module's table; the sum has the case's dtype."""
        found = super().output_specs(case)
        return tuple(replace(spec, dtype=case.dtype) if n == 1 else spec for n, spec in enumerate(found))

    def expected(self, case: Case, inputs: tuple[Tensor, ...], rows: slice | Tensor, device: str) -> Iterator[Expected]:
        """See `Operator.expected`. What may differ from exact arithmetic, with u = 2^-20 (2^-46 in float64):

        mean            4 u mean|x|: LayerNorm in two passes over float32, the best there is, cannot do better where the
                        mean is large. A variance taken as mean(x^2) - mean^2 is not let pass for large offsets.
        rstd            4 u of it, and where a mean off by m adds m^2 to the variance, m^2 / (2 (variance + eps)) of it
        y               |weight| (rstd m + |x - mean| times the error of rstd) + u (|bias| + what bias is added to),
                        then an ulp of y and the smallest subnormal
        residual_out    rounded once, so half an ulp would do; an ulp is allowed

        After an addition, statistics and y may be those of the sum or of the sum rounded to the dtype, element by
        element: both are computed, and their distance is added to the bound.
        """
        terms = [take_rows(x, case.rows, rows).to(device) for x in inputs[: 1 + self.adds]]
        width = max(1, BLOCK_ELEMENTS // len(terms[0]))
        blocks = list(zip(*(x.split(width, dim=1) for x in terms), strict=True))
        exact = self._statistics(case, blocks, rounded=False)
        stored = self._statistics(case, blocks, rounded=True) if self.adds else exact
        columns = [x.to(device).double().split(width) for x in inputs[1 + self.adds :]]
        first = 0
        for index, block in enumerate(blocks):
            weight, bias = columns[0][index], columns[1][index] if self.centred else None
            yield self._outputs(case, block, (exact, stored), weight, bias, first)
            if self.adds:
                total = _sum(block, False)
                yield _expected(total, total.new_zeros(total.shape), case.dtype, first, output=1)
            first += block[0].shape[1]
        if self.adds:
            yield from self._rows(case, exact, stored)

    def _statistics(self, case: Case, blocks: list[tuple[Tensor, ...]], *, rounded: bool) -> _Statistics:
        """Statistics of rows in float64, in two passes; rounded: of the sum as it is stored."""
        unit = bounds.slack_unit(case) * bounds.SUM_FACTOR
        count = max(1, case.columns)
        rows = blocks[0][0].new_zeros(len(blocks[0][0]), 1).double()
        mean, size, square = rows, rows.clone(), rows.clone()
        if self.centred:
            for block in blocks:
                x = _sum(block, rounded)
                mean = mean + x.sum(1, keepdim=True)
                size += x.abs_().sum(1, keepdim=True)
            mean, size = mean / count, size / count
        for block in blocks:
            square += (_sum(block, rounded) - mean).square_().sum(1, keepdim=True)
        variance = square.div_(count).add_(self.eps)
        off = size * unit
        return _Statistics(mean, off, variance.rsqrt(), (off.square() / (2 * variance)).clamp_(max=1).add_(unit))

    def _outputs(
        self,
        case: Case,
        block: tuple[Tensor, ...],
        statistics: tuple[_Statistics, _Statistics],
        weight: Tensor,
        bias: Tensor | None,
        first: int,
    ) -> Expected:
        exact, stored = statistics
        unit = bounds.slack_unit(case)
        centred = _sum(block, False) - exact.mean
        scale = exact.rstd * weight.abs()
        slack = (centred.abs() * exact.rstd_error).add_(exact.mean_error).mul_(scale)
        if self.adds:
            other = _sum(block, True) - stored.mean
            slack += (other - centred).abs_().mul_(scale)
            slack += other.abs_().mul_((stored.rstd - exact.rstd).abs()).mul_(weight.abs())
        values = centred.mul_(exact.rstd).mul_(weight)
        slack += values.abs().mul_(unit)
        if bias is not None:
            values += bias
            slack += bias.abs() * unit
        return _expected(values, slack, case.out_dtype, first)

    def _rows(self, case: Case, exact: _Statistics, stored: _Statistics) -> Iterator[Expected]:
        """rstd and mean, seen as (rows, 1)."""
        dtype = self.output_specs(case)[2].dtype
        slack = exact.rstd * exact.rstd_error + (stored.rstd - exact.rstd).abs()
        yield _expected(exact.rstd, slack, dtype, output=2)
        if self.centred:
            slack = exact.mean_error + (stored.mean - exact.mean).abs()
            yield _expected(exact.mean, slack, dtype, output=3)

    def invariants(self, case: Case, expected: Expected, got: Tensor) -> Invariant | None:
        """Sums of the magnitudes of a row of y, which a wrong scale moves: see `bounds.row_sums`."""
        if expected.output:
            return None
        return bounds.row_sums(case, expected, got, magnitudes=True)


@dataclass(frozen=True)
class _Statistics:
    """All (rows, 1) float64; mean_error is absolute, rstd_error relative. Without centring mean and its error are 0."""

    mean: Tensor
    mean_error: Tensor
    rstd: Tensor
    rstd_error: Tensor


def _sum(block: tuple[Tensor, ...], rounded: bool) -> Tensor:
    """x, or x + residual, in float64; rounded: to the inputs' dtype and back. Always a new tensor."""
    import torch

    if len(block) == 1:
        return block[0].to(torch.float64, copy=True)
    total = block[0].double() + block[1].double()
    return total.to(block[0].dtype).double() if rounded else total


def _expected(values: Tensor, slack: Tensor, dtype: str, first: int = 0, output: int = 0) -> Expected:
    return Expected(values, slack, bounds.allowed(values, slack, dtype), first, output)


NORMS = {
    norm.name: norm
    for norm in (
        Norm("rmsnorm", centred=False, adds=False),
        Norm("layernorm", centred=True, adds=False),
        Norm("add_rmsnorm", centred=False, adds=True),
        Norm("add_layernorm", centred=True, adds=True),
    )
}
