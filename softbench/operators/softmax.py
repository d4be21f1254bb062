"""Softmax along the last dimension: y = exp(x - max) / sum(exp(x - max))."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from softbench.model import DTYPE_BYTES, Case
from softbench.operators import Expected, Invariant, OutputSpec
from softbench.operators.inputs import BLOCK_ELEMENTS, allocate, fill, take_rows
from softbench.operators.words import parse_layout

if TYPE_CHECKING:
    from torch import Tensor

# exp(d) in float32 errs by half an ulp of d, relatively |d| 2^-24, and by a few ulps (2^-23) of its own, as do the sum
# and the division: 2^-20 (1 + |d|) holds eight. In float64 the reference makes the same errors as what it judges.
FLOAT32_SLACK = 2.0**-20
FLOAT64_SLACK = 2.0**-46
EXP_UNDERFLOW = 1e3  # exp(-1000) is 0 in float64; a cap that keeps infinite differences out of products


class Softmax:
    """The operator "softmax": one input (..., columns), one output of the same shape in the case's out_dtype."""

    name = "softmax"
    roof = "copy"
    baseline = "torch_eager"

    def ideal_bytes(self, case: Case) -> int:
        """Bytes of the input's distinct elements and of the output."""
        read = case.elements
        if parse_layout(case.layout).broadcast and case.rows:
            read = case.columns
        return read * DTYPE_BYTES[case.dtype] + case.elements * DTYPE_BYTES[case.out_dtype]

    def ideal_flops(self, case: Case) -> int:
        """Five an element: compare, subtract, exponential, add, multiply."""
        return 5 * case.elements

    def make_inputs(self, case: Case, device: str, seed: int) -> tuple[Tensor]:
        """See `Operator.make_inputs`; one tensor."""
        x = allocate(case.shape, case.dtype, parse_layout(case.layout), device)
        self.refill(case, (x,), seed)
        return (x,)

    def refill(self, case: Case, inputs: tuple[Tensor, ...], seed: int) -> None:
        """See `Operator.refill`."""
        fill(inputs[0], case.distribution, parse_layout(case.layout), key=f"{case.id} {seed}")

    def output_specs(self, case: Case) -> tuple[OutputSpec]:
        """One output of the input's shape."""
        return (OutputSpec(case.shape, case.out_dtype),)

    def expected(self, case: Case, inputs: tuple[Tensor, ...], rows: slice | Tensor, device: str) -> Iterator[Expected]:
        """See `Operator.expected`. |y - r| may be (eps + 2^-20 (1 + |x - max|)) r + the smallest subnormal.

        From float64 to float64 it is 2^-46 instead of 2^-20. Where exp(x - max) is exactly 0 because x is -inf, so
        must y be. Rows that hold NaN or +inf, or -inf only, are NaN throughout, as in torch.
        """
        import torch

        x = take_rows(inputs[0], case.rows, rows).to(device)
        blocks = x.split(max(1, BLOCK_ELEMENTS // len(x)), dim=1)
        top = x.amax(1, keepdim=True).double()
        total = torch.zeros_like(top)
        for block in blocks:
            total += (block.double() - top).exp_().sum(1, keepdim=True)
        limits = torch.finfo(getattr(torch, case.out_dtype))
        unit = FLOAT64_SLACK if case.dtype == case.out_dtype == "float64" else FLOAT32_SLACK
        first = 0
        for block in blocks:
            below = top - block.double()
            values = below.neg().exp_().div_(total)
            masked = below == float("inf")
            slack = below.clamp_(max=EXP_UNDERFLOW).add_(1).mul_(values).mul_(unit)
            allowed = (
                (slack + limits.smallest_normal * limits.eps).add_(values, alpha=limits.eps).masked_fill_(masked, 0.0)
            )
            yield Expected(values, slack, allowed, first)
            first += block.shape[1]

    def invariants(self, case: Case, expected: Expected, got: Tensor) -> Invariant:
        """Row sums, held far more tightly than the elements: rounding errors cancel, a bias does not.

        A kernel that errs by no more than the slack and then rounds to nearest returns an element between
        round(r - slack) and round(r + slack), so a row sums to between the sums of these. They are equal but for the
        few elements next to a rounding boundary, so in every dtype the bounds on a sum are about 2^-20 wide, also where
        all elements of a row round alike. A kernel that rounds twice makes one more error, unbiased and of variance
        ulp^2 / 12 with ulp <= eps r + the smallest subnormal: its variance is allowed for, and so is that equal elements
        round alike (`Invariant.margin`).
        """
        import torch

        dtype: torch.dtype = getattr(torch, case.out_dtype)
        limits = torch.finfo(dtype)
        values, slack = expected.values, expected.slack
        ulp = (values * limits.eps).add_(limits.smallest_normal * limits.eps)
        return Invariant(
            name="row sum",
            got=got.sum(1),
            low=(values - slack).to(dtype).double().sum(1),
            high=(values + slack).to(dtype).double().sum(1),
            exact=values.sum(1),
            variance=ulp.square_().sum(1).div_(12),
            independent=case.distribution == "normal" and not parse_layout(case.layout).broadcast,
        )
