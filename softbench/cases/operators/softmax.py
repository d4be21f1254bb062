"""Softmax along the last dimension: y = exp(x - max) / sum(exp(x - max))."""

from collections.abc import Iterator

from softbench.cases.operators import bounds
from softbench.cases.operators.expected import Expected, Invariant
from softbench.cases.operators.inputs import BLOCK_ELEMENTS, take_rows
from softbench.cases.operators.recipes import Form
from softbench.cases.operators.streams import Stream, Streamed
from softbench.model import Case, Tensor

EXP_UNDERFLOW = 1e3  # exp(-1000) is 0 in float64; a cap that keeps infinite differences out of products


class Softmax(Streamed):
    """The operator "softmax": one input (..., columns), one output of the same shape in the case's out_dtype."""

    name = "softmax"
    reads = (Stream("x"),)
    writes = (Stream("y"),)
    form = Form.LOGITS

    def ideal_flops(self, case: Case) -> int:
        """Five per element: compare, subtract, exponential, add, multiply."""
        return 5 * case.elements

    def expected(self, case: Case, inputs: tuple[Tensor, ...], rows: slice | Tensor, device: str) -> Iterator[Expected]:
        """See `Operator.expected`. |y - r| may be (eps + 2^-20 (1 + |x - max|)) r + the smallest subnormal; of a drawn row
        also what `bounds.lost` says of its sum.

        exp(d) in float32 errs by half an ulp of d, relatively |d| 2^-24, and by a few ulps (2^-23) of its own, as do the
        sum and the division. From float64 to float64 it is 2^-46 instead of 2^-20. Where exp(x - max) is exactly 0
        because x is -inf, so must y be. Rows that hold NaN or +inf, or -inf only, are NaN throughout, as in torch.
        """
        x = take_rows(inputs[0], case.rows, rows).to(device)
        blocks = x.split(max(1, BLOCK_ELEMENTS // len(x)), dim=1)
        top = x.amax(1, keepdim=True).double()
        total = top.new_zeros(top.shape)
        for block in blocks:
            total += (block - top).exp_().sum(1, keepdim=True)
        unit = bounds.slack_unit(case)
        lost = bounds.lost(case, ((block - top).exp_() for block in blocks), total)
        first = 0
        for block in blocks:
            below = top - block
            values = below.neg().exp_().div_(total)
            masked = below == float("inf")
            slack = (lost + unit).add(below.clamp_(max=EXP_UNDERFLOW), alpha=unit).mul_(values)
            allowed = bounds.allowed(values, slack, case.out_dtype).masked_fill_(masked, 0.0)
            yield Expected(values, slack, allowed, first)
            first += block.shape[1]

    def invariants(self, case: Case, expected: Expected, got: Tensor) -> Invariant:
        return bounds.row_sums(case, expected, got)
