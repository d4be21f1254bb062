import functools
import math
import re

import pytest
import torch
from support.checked import question, reason, right
from support.grids import over

from softbench.cases.operators import get
from softbench.measure import check as module
from softbench.measure.check import check, compare, judging, watching

make = functools.partial(question, "softmax")


def altered(case, change):
    return lambda x: change(right(case)(x))


def truncated(x):
    return (x.float().softmax(-1).view(torch.int32) & -65536).view(torch.float32).bfloat16()


def in_two_parts(x):
    """NaN where the first part of a row is masked."""
    first, rest = x[:, :256], x[:, 256:]
    top = first.amax(-1, keepdim=True)
    total = (first - top).exp().sum(-1, keepdim=True)
    new = torch.maximum(top, rest.amax(-1, keepdim=True))
    return (x - new).exp() / (total * (top - new).exp() + (rest - new).exp().sum(-1, keepdim=True))


def by_product(x):
    """Right where the exponents are small."""
    e = torch.exp2(x / math.log(2) - x.amax(-1, keepdim=True) / math.log(2))
    return e / e.sum(-1, keepdim=True)


def test_outputs_may_be_dense_in_another_order():
    case = make((8, 64), layout="transposed")
    assert check(case, lambda x: torch.empty_like(x).copy_(x.softmax(-1)), "cpu").reason == ""
    # one row: its stride means nothing
    assert check(make((1, 64)), lambda x: x.new_empty(8, 80)[:1, :64].copy_(x.softmax(-1)), "cpu").reason == ""
    assert check(make(), by_product, "cpu").ok
    with pytest.raises(ZeroDivisionError):  # what a launch raises is not the checker's to name
        check(make(), lambda x: 1 / 0, "cpu")


def test_column_blocks_of_a_long_row(monkeypatch):
    monkeypatch.setattr("softbench.cases.operators.softmax.BLOCK_ELEMENTS", 1000)
    case = make((2, 4096))
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 1000)
    assert check(case, right(case), "cpu").reason == ""
    late = altered(case, lambda y: y.index_put((torch.tensor(1), torch.tensor(3500)), torch.tensor(0.5)))
    assert reason(case, late).startswith("row 1, column 3500: got 0.5, expected ")


WRONG = [
    (make((1, 262144), "float16"), torch.zeros_like, "every element is 0"),
    (make(), lambda x: torch.full_like(x, 0.5), "every element is 0.5"),
    (make(), lambda x: [x.softmax(-1)], "wrong type: list"),
    (make(), lambda x: (x.softmax(-1), None), "2 outputs were returned where 1 are expected"),
    (make((6, 6)), lambda x: x.softmax(-1).to_sparse(), "wrong layout: sparse_coo where a dense tensor is expected"),
    (make((6, 6)), lambda x: torch._neg_view(-x.softmax(-1)), "left lazy: a negation, a conjugation or a zero"),
    (make((6, 6)), lambda x: torch._efficientzerotensor(6, 6), "left lazy: a negation, a conjugation or a zero"),
    (make((64, 64)), lambda x: x.softmax(0), "row 0, column 0: got"),
    (make(distribution="all_inf"), lambda x: x.softmax(-1).nan_to_num(0.0), "a number where NaN is expected"),
    (make(distribution="prefix_inf_255"), lambda x: torch.where(x > -1, x.softmax(-1), math.nan), "NaN where a number is expected"),
    *(
        (make(shape, dtype), lambda x: (x.float().softmax(-1) * 1.001).to(x.dtype), "row sum")
        for shape in ((6, 4096), (4096, 16))
        for dtype in ("float16", "bfloat16", "float32")
    ),
    *(
        (make(dtype="bfloat16", distribution=values), truncated, "row sums off: row 0 has 0.99")
        for values in ("normal", "segments_inf")
    ),
    (make((4, 1024), distribution="segments_inf"), in_two_parts, "NaN where a number is expected: row 1, column 0"),
    (make(distribution="shifted_1e4"), by_product, "row 0, column"),
]


@over("case, launch, words", WRONG)
def test_wrong_outputs_are_named(case, launch, words):
    assert words in reason(case, launch)


def test_the_first_wrong_element_is_named_in_full():
    case = make((4, 8))

    def launch(x):
        y = x.softmax(-1)
        y[3, 5] = 2.0
        return y

    text = reason(case, launch)
    value = float(get("softmax").make_inputs(case, "cpu", 3)[0].double().softmax(-1)[3, 5])
    assert f"row 3, column 5: got 2, expected {value:.6g} (allowed +-" in text
    assert "; 1 of 32 elements wrong" in text


PARTS = [
    (make((64, 100)), lambda y: y[63:].fill_(-3), "^wrong from row 63 on: row 63, column 0: got -3, "),
    (make((64, 100)), lambda y: y[61:].fill_(-3), "^wrong from row 61 on: row 61, column 0: got -3, "),
    (make((64, 100)), lambda y: y[7].mul_(2), "^row 7, column 0: got "),
    (make((6, 65536), "float16"), lambda y: y[:, -300:].zero_(), "wrong from column 6523"),
    (make(distribution="prefix_inf_257"), lambda y: y.clamp_(min=1e-45), "column 257: got 1.4013e-45, expected 0"),
    *(
        (make(dtype=dtype), lambda y, at=at: y[:, at:].fill_(-15.6), f"wrong from column {at} on: row 0, column {at}")
        for at in (4095, 3584)
        for dtype in ("float16", "float32")
    ),
]


@over("case, change, said", PARTS)
def test_what_is_wrong_in_a_part_is_named_by_its_place(case, change, said):
    assert re.search(said, reason(case, altered(case, lambda y: (change(y), y)[1])))


def test_a_static_buffer_that_changes_hands():
    case, buffers = make(), [torch.empty(6, 4096), torch.empty(6, 4096)]

    def hidden(x):
        buffers[0].copy_(x.softmax(-1))
        buffers.reverse()
        buffers[0].copy_(buffers[1])
        return buffers[1]

    assert "one static buffer: the first launch's output changed" in reason(case, hidden)


@over("layout", ["contiguous", "padded-3", "strided-2", "offset-1"])
def test_writes_outside_the_input(layout):
    case = make((4, 9), layout=layout)

    def launch(x):
        size = (1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))) + 1
        y = x.softmax(-1)
        x.as_strided((size,), (1,))[9 if layout == "padded-3" else -1] = 0
        return y

    assert "wrote outside the input" in reason(case, launch)


@over("inside, dtype", [("float16", "float32"), ("float32", "float64")])
def test_low_precision_inside(inside, dtype):
    text = reason(make(dtype=dtype), lambda x: x.to(getattr(torch, inside)).softmax(-1).to(x.dtype))
    assert text.startswith("low precision: row 0, ")
    shown = re.search(r"row 0, column 0: got (\S+), expected (\S+) ", text)
    assert shown[1] != shown[2]


@over("shape", [(6, 4096), (4096, 16), (1, 262144)])
@over("dtype", ["float16", "bfloat16"])
def test_unbiased_second_rounding_passes(dtype, shape):
    """An intermediate rounding of half an ulp that is no bias is within one ulp, and within what the sums allow."""
    case = make(shape, dtype)
    eps = torch.finfo(getattr(torch, dtype)).eps

    def launch(x):
        noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) - 0.5
        return (x.float().softmax(-1) * (1 + noise * eps)).to(x.dtype)

    assert check(case, launch, "cpu").reason == ""


def test_some_rows_alone():
    case = make((50, 64))
    inputs = get("softmax").make_inputs(case, "cpu", 0)
    y = right(case)(*inputs)
    y[17, 3] = 0
    faults = [judging.judge(case, inputs, (y,), [torch.tensor(rows)], "cpu") for rows in ([5, 49, 0], [5, 17])]
    assert faults[0] is None
    assert faults[1].reason.startswith("row 17, column 3: got 0,")
    assert compare(case, inputs, y).reason.startswith("row 17, column 3: got 0,")


def test_a_short_comparison_takes_random_blocks(monkeypatch):
    monkeypatch.setattr("softbench.measure.check.BLOCK_ELEMENTS", 640)
    case = make((100, 64))  # ten blocks of ten rows
    inputs = get("softmax").make_inputs(case, "cpu", 0)
    y = right(case)(*inputs)
    y[30:40] = 0
    found = [compare(case, inputs, y, blocks=2).ok for _ in range(100)]
    assert {True, False} == set(found)  # right in 80 of 100, as long as both blocks are other ones
    assert not compare(case, inputs, y, blocks=10).ok
    y[:] = 0
    assert not compare(case, inputs, y, blocks=1).ok


@over("count", [1, watching.LAST_ELEMENTS - 1, watching.LAST_ELEMENTS, 2 * watching.LAST_ELEMENTS + 3])
@over("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_what_is_seen_of_an_output_is_its_bits(count, dtype):
    """As another stream would be met: of NaN and of zeros with a sign as well."""
    y = torch.randn(count, dtype=torch.float64).to(dtype)
    y[:: max(1, count // 5)], y[count // 2] = torch.nan, -0.0
    place = torch.empty_like(y)
    watching._see(y, place)
    assert torch.equal(place.view(torch.uint8), y.view(torch.uint8))
