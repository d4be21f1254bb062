import itertools
import math
from functools import partial

import pytest
import torch
from support import checked
from support.checked import right, rows_expected
from support.grids import over

from softbench.cases.operators import DISTRIBUTIONS, get
from softbench.cases.operators.vocabulary import ROW_OPERATORS, Layout, parse_layout
from softbench.measure.check import check
from softbench.model import DTYPES, Case

PAIRS = [(dtype, dtype) for dtype in DTYPES] + [("float16", "float32")]
LAYOUTS = (*checked.LAYOUTS, "offset-3+strided-3+padded-5")


def draw(shape, dtype="float32", seed=0, **words):
    return get("softmax").make_inputs(Case("softmax", shape, dtype, dtype, **words), "cpu", seed)[0]


def test_layout_words_and_what_wrong_ones_say():
    assert parse_layout("contiguous") == Layout()
    assert parse_layout("offset-1+padded-3") == Layout(offset=1, row_pad=3)
    assert parse_layout("offset-2+transposed") == Layout(offset=2, transposed=True)
    assert parse_layout("broadcast+strided-4") == Layout(column_step=4, broadcast=True)
    for word in (
        *("", "offset", "offset-0", "offset--1", "wide", "offset-1+", f"keys-{10**9}"),
        "offset-1+offset-2",
        "transposed+padded-1",
    ):
        with pytest.raises(ValueError, match=r"padded-K.*transposed.*; K is 1 to 999999999$"):
            parse_layout(word)


def test_wrong_words_name_the_choices():
    with pytest.raises(ValueError, match=r"'relu'.*softmax"):
        get("relu")
    with pytest.raises(ValueError, match="two dimensions"):
        draw((5,), layout="transposed")


@over(
    "layout, strides, offset",
    [
        ("contiguous", (28, 7, 1), 0),
        ("offset-1+padded-3", (40, 10, 1), 1),
        ("strided-2", (56, 14, 2), 0),
        ("transposed", (28, 1, 4), 0),
        ("broadcast", (0, 0, 1), 0),
    ],
)
def test_layouts_in_memory(layout, strides, offset):
    x = draw((2, 4, 7), layout=layout)
    assert x.shape == (2, 4, 7)
    assert x.stride() == strides
    assert (x.storage_offset() * 4 - offset * 4) % 512 == 0
    assert x.isfinite().all()


@over("layout", LAYOUTS)
@over("dtype", DTYPES)
def test_all_of_the_storage_but_the_elements_is_guard(layout, dtype):
    x = draw((3, 5), dtype, layout=layout)
    storage = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
    x.fill_(0) if layout != "broadcast" else x[0].fill_(0)
    elements = 5 if layout == "broadcast" else 15
    assert (storage == 0).sum() == elements * x.element_size()
    assert (storage == 255).sum() == len(storage) - elements * x.element_size()
    assert storage[:4096].min() == storage[-4096:].min() == 255


def bits(inputs):
    return [x.view(torch.int16).tolist() for x in inputs]


DRAWN = [*itertools.product(ROW_OPERATORS, [(2, 3, 40)], LAYOUTS), ("attention", (2, 3, 4, 64), "offset-1+keys-17")]


@over("operator, shape, layout", DRAWN)
@over("distribution", DISTRIBUTIONS)
def test_same_seed_same_bits_and_refill_redraws_in_place(operator, shape, distribution, layout):
    case = Case(operator, shape, "float16", "float16", layout=layout, distribution=distribution)
    one, two = (get(operator).make_inputs(case, "cpu", seed) for seed in (1, 2))
    places, before = [x.data_ptr() for x in two], bits(two)
    get(operator).refill(case, two, 1)
    assert bits(one) == bits(two)
    assert [x.data_ptr() for x in two] == places
    get(operator).refill(case, one, 2)
    assert bits(one) == before
    assert distribution != "normal" or not any(x == y for x, y in zip(bits(one), bits(two), strict=True))


@over("dtype", DTYPES)
def test_ordinary_distributions_are_finite(dtype):
    ordinary = [w for w in DISTRIBUTIONS if "inf" not in w and "nan" not in w]
    assert len(ordinary) == 16
    for word in ordinary:
        assert draw((6, 100), dtype, distribution=word).isfinite().all(), word


def test_masks():
    inf = float("-inf")
    i, j = torch.arange(9)[:, None], torch.arange(5)[None]
    assert torch.equal(draw((9, 5), distribution="causal_inf") == inf, j > i % 5)
    assert torch.equal(draw((9, 5), distribution="causal_min") == torch.finfo(torch.float32).min, j > i % 5)
    assert torch.equal((draw((2, 300), distribution="prefix_inf_257") == inf)[1], torch.arange(300) >= 257)
    valid = (draw((200, 5), distribution="padding_inf") != inf).sum(1)
    assert set(valid.tolist()) == {1, 2, 3, 4, 5}
    masked = draw((2, 1024), distribution="segments_inf") == inf
    assert torch.equal(masked[0], torch.arange(1024) // 256 % 2 == 1)
    assert torch.equal(masked[1], ~masked[0])
    assert not (draw((5, 1), distribution="segments_inf") == inf).any()


@over("word", ["all_inf", "plus_inf", "nan_first", "nan_middle", "nan_last", "nan_with_inf"])
def test_special_rows_are_mixed_with_ordinary_ones(word):
    rows = draw((5, 9), distribution=word).softmax(-1).isnan().all(1)
    assert rows.tolist() == [True, False, True, False, True]
    one = draw((1, 9), distribution=word)
    assert one.softmax(-1).isnan().all()
    column = {"nan_first": 0, "nan_middle": 4, "nan_last": 8}.get(word)
    assert column is None or one.isnan().nonzero().tolist() == [[0, column]]


def test_values():
    assert (draw((9, 50), distribution="equal").std(1) == 0).all()
    assert (draw((9, 50), distribution="peaked") > 15).sum(1).tolist() == [1] * 9
    for low, high in ((0, 10), (500, 1000)):
        values = draw((2, 4000), distribution=f"uniform_{low}_{high}")
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= high
    growing = draw((2, 100), distribution="growing")
    assert (growing.diff() > 0).all()
    assert set(draw((9, 50), "float16", distribution="dtype_max").abs().max(1).values.tolist()) == {65504.0}
    assert abs(float(draw((50, 1000)).std()) - 1) < 0.02


@over("operator, inputs, flops", [("softmax", 1, 5), ("softmax_backward", 2, 4)])
def test_ideal_work(operator, inputs, flops):
    found = get(operator)
    for out_dtype, size in (("float16", 2), ("float32", 4)):
        case = Case(operator, (4, 2, 8), "float16", out_dtype)
        assert (found.ideal_bytes(case), found.ideal_flops(case)) == (64 * (2 * inputs + size), 64 * flops)
    for rows in (4, 0):
        case = Case(operator, (rows, 8), "float32", "float32", layout="broadcast")
        assert found.ideal_bytes(case) == 8 * 4 * (inputs + rows if rows else 0)


@over("operator", ["softmax", "softmax_backward"])
@over("layout", ["contiguous", "transposed", "broadcast"])
@over("dtype", ["float32", "float64"])
@over("block", [4, 2**22])
def test_expected_agrees_with_exact_sums(operator, layout, dtype, block, monkeypatch):
    monkeypatch.setattr(f"softbench.cases.operators.{operator}.BLOCK_ELEMENTS", block)
    case = Case(operator, (2, 3, 37), dtype, dtype, layout=layout)
    inputs = get(operator).make_inputs(case, "cpu", 0)
    if operator == "softmax":
        blocks = get(operator).expected(case, inputs, slice(1, 4), "cpu")
        assert [b.first_column for b in blocks] == list(range(0, 37, max(1, block // 3)))
    for index, found in rows_expected(case, inputs):
        first, *others = (x[index // 3, index % 3].tolist() for x in inputs)
        if operator == "softmax":
            powers = [math.exp(v) for v in first]
            right = [power / math.fsum(powers) for power in powers]
        else:
            total = math.fsum(map(math.prod, zip(first, *others, strict=True)))
            right = [(dy - total) * y for dy, y in zip(first, *others, strict=True)]
        assert found[0] == pytest.approx(right, rel=1e-14 if operator == "softmax" else 1e-12, abs=1e-16)


# One row: the special row alone; 1 column; two blocks of 256; odd; a power of two.
BLOCKS = [(1, 9), (5, 1), (3, 513), (4, 1001), (2, 4096)]
SHAPES = [(), (1,), (0,), (5,), (0, 5), (5, 0), (2, 0, 3), (2, 2, 2, 5), (1000, 16), (65537, 2), (1, 65537)]


@over("operator", ["softmax", "softmax_backward"])
@over("pair", PAIRS)
def test_torch_passes_every_distribution_layout_and_shape(operator, pair):
    question = partial(checked.question, operator, dtype=pair[0], out_dtype=pair[1])
    few = BLOCKS[0 if pair == ("float32", "float32") else 3 :]
    asked = [question(shape, distribution=word) for word in DISTRIBUTIONS for shape in few]
    asked += [question(shape, layout=word) for word in LAYOUTS for shape in ((1, 1), (5, 1001), (3, 7, 33), (2, 3, 4, 9))]
    for case in (*asked, *map(question, SHAPES)):
        assert check(case, right(case), "cpu", 1).reason == "", case.id
