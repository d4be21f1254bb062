"""The gradient of softmax along the last dimension: dx = (dy - sum(dy * y)) * y, with y the softmax's output."""

from collections.abc import Iterator
from dataclasses import replace

from softbench.cases.operators import bounds
from softbench.cases.operators.expected import Expected, Invariant
from softbench.cases.operators.inputs import BLOCK_ELEMENTS, fill, in_rows, key_of, take_rows
from softbench.cases.operators.streams import Stream, Streamed
from softbench.cases.operators.vocabulary import of_others, parse_layout
from softbench.model import DTYPE_BYTES, Case, Tensor

SOFTMAX_ELEMENTS = 2**24  # made into probabilities at once: 64 MB in float32, held about three times


class SoftmaxBackward(Streamed):
    """The operator "softmax_backward": inputs dy and y, both (..., columns); one output dx of their shape.

    dy holds normals. y is the softmax of logits of the case's distribution, computed in float32 (float64 where that is
    the dtype) and rounded to the dtype, so that a row of it sums to 1 but for its rounding. Both have the case's dtype
    and layout; dx has its out_dtype.
    """

    name = "softmax_backward"
    reads = (Stream("dy"), Stream("y"))
    writes = (Stream("dx"),)

    def ideal_flops(self, case: Case) -> int:
        """Four per element: multiply and add for the sum, subtract, multiply."""
        return 4 * case.elements

    def refill(self, case: Case, inputs: tuple[Tensor, ...], seed: int) -> None:
        layout = parse_layout(case.layout)
        dy, y = inputs
        fill(dy, of_others(case.distribution), layout, key=key_of(case, seed, "dy"))
        fill(y, case.distribution, layout, key=key_of(case, seed))
        in_rows(y, layout, _to_probabilities)

    def expected(self, case: Case, inputs: tuple[Tensor, ...], rows: slice | Tensor, device: str) -> Iterator[Expected]:
        """See `Operator.expected`. |dx - r| may be eps |r| + 2^-20 y (|dy| + sum|dy y|) + the smallest subnormal.

        The sum errs relative to the sum of magnitudes, the difference by that and by its own rounding, and the product
        scales both by y; from float64 to float64 it is 2^-46. Whether a kernel computes (dy - sum) y or dy y - sum y
        makes no difference to this bound. Where y is 0, so must dx be. Rows with a NaN in y are NaN throughout.

        In 16 bits torch rounds every dy y before it adds them up and subtracts (`softmax_backward_cuda_out` in ATen's
        cuda/SoftMax.cu multiplies in a kernel of its own); Liger does so in bfloat16 for the sum only. What rounding the
        products does, to the sum and to the element, is added to the bound. Rounding the sum or the difference to 16 bits
        is not let pass.
        """
        dy, y = (take_rows(x, case.rows, rows).to(device) for x in inputs)
        width = max(1, BLOCK_ELEMENTS // len(y))
        blocks = list(zip(dy.split(width, dim=1), y.split(width, dim=1), strict=True))
        total, size, rounded = _sums(blocks)
        terms = ((gradient.double() * output.double()).abs_() for gradient, output in blocks)
        unit = bounds.slack_unit(case) + bounds.lost(case, terms, size)
        in_16_bits = case.dtype == case.out_dtype and DTYPE_BYTES[case.dtype] == 2
        first = 0
        for gradient, output in blocks:
            share = output.double()
            slack = gradient.double().abs().add_(size).mul_(share).mul_(unit)
            values = (gradient.double() - total).mul_(share)
            others: tuple[Tensor, ...] = ()
            reach = slack
            if in_16_bits:
                products_rounded = (gradient * output).double().sub_(rounded * share)
                sum_rounded = (gradient.double() - rounded).mul_(share)
                others = products_rounded, sum_rounded
                reach = (sum_rounded - products_rounded).abs_().add_((sum_rounded - values).abs_()).add_(slack)
            allowed = bounds.allowed(values, reach, case.out_dtype).masked_fill_(share == 0, 0.0)
            yield Expected(values, slack, allowed, first, others=others)
            first += output.shape[1]

    def invariants(self, case: Case, expected: Expected, got: Tensor) -> Invariant:
        """Row sums, which a wrong sum(dy * y) shifts by as much as it is wrong: see `bounds.row_sums`.

        In exact arithmetic a row sums to sum(dy * y) (1 - sum(y)): to 0, but for the rounding of y.
        """
        sums = bounds.row_sums(case, expected, got)
        for values in expected.others:
            sums = sums.or_else(bounds.row_sums(case, replace(expected, values=values), got))
        return sums


def _sums(blocks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Three sums of every row's products dy y, (rows, 1) float64: of them, of their magnitudes, of them rounded to the dtype."""
    total = blocks[0][0].new_zeros(len(blocks[0][0]), 1).double()
    size, rounded = total.clone(), total.clone()
    for gradient, output in blocks:
        products = gradient.double() * output.double()
        total += products.sum(1, keepdim=True)
        size += products.abs_().sum(1, keepdim=True)
        rounded += (gradient * output).double().sum(1, keepdim=True)
    return total, size, rounded


def _to_probabilities(rows: Tensor) -> None:
    """Replace logits by their softmax, in place; takes about 200 MB."""
    import torch

    working = torch.promote_types(rows.dtype, torch.float32)
    for slab in rows.split(max(1, SOFTMAX_ELEMENTS // rows.shape[1])):
        slab.copy_(torch.softmax(slab, -1, dtype=working))
