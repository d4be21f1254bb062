from dataclasses import replace
from functools import partial

import torch
from support import checked
from support.checked import LAYOUTS, fault
from support.grids import over

from softbench.cases.operators import Invariant, get
from softbench.model import DTYPES, Case

OPERATOR = get("softmax_backward")
question = partial(checked.question, "softmax_backward")


def drawn(case):
    inputs = OPERATOR.make_inputs(case, "cpu", 0)
    (expected,) = OPERATOR.expected(case, inputs, slice(0, case.rows), "cpu")
    return *inputs, expected


def eager(dy, y):
    return torch.ops.aten._softmax_backward_data(dy, y, -1, dy.dtype)


@over("layout", LAYOUTS)
@over("dtype", DTYPES)
def test_y_is_a_softmax_of_the_distribution_and_dy_is_normal(dtype, layout):
    case = question((8, 3, 500), dtype, "padding_inf", layout)
    dy, y = OPERATOR.make_inputs(case, "cpu", 1)
    (logits,) = get("softmax").make_inputs(case, "cpu", 1)
    assert dy.stride() == y.stride() == logits.stride()
    right = torch.softmax(logits.double(), -1)
    assert torch.equal(y == 0, logits == float("-inf"))
    torch.testing.assert_close(y.double(), right, rtol=1e-2 if "16" in dtype else 1e-5, atol=1e-6)
    assert 0.8 < float(dy.double().std()) < 1.2
    assert dy.isfinite().all()


def rounded_products(dy, y, dtype=torch.bfloat16):
    """What torch does on CUDA, where the products in 16 bits are a tensor of their own."""
    product = (dy.to(dtype) * y.to(dtype)).float()
    return (product - y.float() * product.sum(-1, keepdim=True)).to(dy.dtype)


def test_either_order_of_operations_passes():
    for dtype in ("bfloat16", "float32"):
        assert fault(question(dtype=dtype), partial(rounded_products, dtype=torch.float32)) == ""


def sum_of_rounded_products(dy, y):
    """What Liger does in bfloat16."""
    total = (dy * y).float().sum(-1, keepdim=True)
    return ((dy.float() - total) * y.float()).to(dy.dtype)


@over("distribution", ["normal", "peaked", "padding_inf", "nan_middle", "equal"])
@over("dtype", [torch.float16, torch.bfloat16])
def test_products_rounded_to_16_bits_pass_as_they_do_in_torch(dtype, distribution, monkeypatch):
    for block, shape in ((2**10, (37, 33)), (2**10, (6, 4096)), (2**22, (2, 65536))):
        monkeypatch.setattr("softbench.cases.operators.softmax_backward.BLOCK_ELEMENTS", block)
        case = question(shape, str(dtype).removeprefix("torch."), distribution)
        assert fault(case, lambda dy, y: rounded_products(dy, y, dtype)) == "", shape
        assert fault(case, sum_of_rounded_products) == "", shape


@over("dtype, out_dtype", [("float32", "float32"), ("float64", "float64"), ("float16", "float32")])
def test_there_is_no_other_reading_where_products_are_in_float32(dtype, out_dtype):
    case = Case("softmax_backward", (2, 33), dtype, out_dtype)
    assert drawn(case)[-1].others == ()


@over("dtype, half_ulp", [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_other_readings_reach_no_further_than_their_roundings(dtype, half_ulp):
    """An element may move by half an ulp of its product and by y times those of its row, of which most cancel."""
    case = question((8, 4096), dtype)
    dy, y, expected = drawn(case)
    product = (dy.double() * y.double()).abs()
    reach = half_ulp * (product + 0.1 * product.sum(1, keepdim=True) * y) + 2.0**-24
    assert bool((expected.allowed <= reach + 2 * expected.slack + 2.1 * half_ulp * expected.values.abs() + 2.0**-24).all())
    assert all(bool(((other - expected.values).abs() <= expected.allowed).all()) for other in expected.others)


def test_a_row_sum_is_that_of_one_reading_or_the_other():
    """Between the two lies a sum that neither gives."""

    def sums(middle, margin):
        row = torch.full((4,), middle, dtype=torch.float64)
        got = torch.tensor([0.0, 1.0, 0.5, 1.25], dtype=torch.float64)
        return Invariant("row sum", got, row - margin, row + margin, row, torch.zeros(4, dtype=torch.float64))

    assert sums(0.0, 0.1).or_else(sums(1.0, 0.3)).violated.tolist() == [False, False, True, False]
    assert sums(0.0, 0.6).or_else(sums(1.0, 0.1)).violated.tolist() == [False, False, False, True]


def test_row_sums_of_all_readings_hold():
    case = question((4, 65536), "float16")
    *_, expected = drawn(case)
    assert len(expected.others) == 2
    for values in (expected.values, *expected.others):
        assert not OPERATOR.invariants(case, expected, values.half().double()).violated.any()
    alone = replace(expected, others=())
    assert OPERATOR.invariants(case, alone, expected.others[0].half().double()).violated.any()


def all_in_16_bits(dy, y):
    total = (dy * y).sum(-1, keepdim=True)
    return (dy - total) * y


def rounded_sum(dy, y):
    total = (dy.float() * y.float()).sum(-1, keepdim=True).bfloat16().float()
    return ((dy.float() - total) * y.float()).to(dy.dtype)


def late_tail(dy, y):
    return torch.cat([eager(dy, y)[:, :-8], torch.full_like(dy[:, -8:], -15.6)], 1)


def short_sum(dy, y):
    total = (dy[:, :-256] * y[:, :-256]).sum(-1, keepdim=True)
    return (dy - total) * y


def overwriting(dy, y):
    dx = eager(dy, y)
    y[0, 0] = 0
    return dx


WRONG = [
    (lambda dy, y: torch.zeros_like(dy), "float32", "every element is 0"),
    (lambda dy, y: eager(y, dy), "float32", "row 0, column 0: got"),
    (lambda dy, y: dy * y, "float16", "row 0, column 0: got"),
    (lambda dy, y: (dy - (dy * y).mean(-1, keepdim=True)) * y, "float32", "row 0, column 0: got"),
    (lambda dy, y: eager(dy.bfloat16(), y.bfloat16()).float(), "float32", "row 0, column 0: got"),
    (lambda dy, y: eager(dy.float(), y.float()), "float64", "wrong dtype"),
    (lambda dy, y: eager(dy.float(), y.float()).double(), "float64", "row 0, column 0: got"),
    (rounded_sum, "float32", "row 0, column"),
    (rounded_sum, "bfloat16", "of 24576 elements wrong"),
    (rounded_products, "float32", "row 0, column"),
    (all_in_16_bits, "float16", "rows wrong"),
    (all_in_16_bits, "bfloat16", "of 24576 elements wrong"),
    (late_tail, "float16", "wrong from column 4088 on"),
    (short_sum, "float32", "row 0, column"),
    (overwriting, "float32", "input 1: the input was overwritten: 1 of 24576 elements changed, first at [0, 0]"),
    (lambda dy, y: y.view_as(y), "float32", "view of the input's memory"),
]


@over("launch, dtype, words", WRONG)
def test_wrong_gradients_are_rejected(launch, dtype, words):
    assert words in fault(question(dtype=dtype), launch)


def test_a_masked_column_has_no_gradient_and_nan_is_only_where_y_has_it():
    assert "expected 0" in fault(question(distribution="prefix_inf_257"), lambda *both: eager(*both) + 1e-45)
    text = fault(question(distribution="nan_middle"), lambda *both: eager(*both).nan_to_num(0.0))
    assert "a number where NaN is expected" in text
