import math
from functools import partial

import pytest
import torch
from support.checked import LAYOUTS, fault, question, rows_expected
from support.grids import over

from softbench.cases.operators import DISTRIBUTIONS, get
from softbench.cases.operators.norms import LAYER_EPS, NORMS, RMS_EPS
from softbench.cases.operators.outputs import as_tuple
from softbench.measure.check import check
from softbench.model import DTYPES

SHAPES = {"float16": [(1, 9), (4, 1001)], "bfloat16": [(4, 1001)], "float32": [(5, 1), (2, 4096)]}
HUGE = ("dtype_max", "causal_min", "padding_min", "all_min")
"""In these, squares overflow float32, but for those of float16."""


def norm(operator, *inputs, rounded=False, inside=None, weighted=True, scale=1.0):
    """The operator in float32 as kernels compute it; `rounded`: of the sum as it is stored."""
    adds, centred = operator.startswith("add_"), operator.endswith("layernorm")
    dtype = inputs[0].dtype
    working = inside or torch.promote_types(dtype, torch.float32)
    x = inputs[0].to(working)
    if adds:
        x = x + inputs[1].to(working)
        x = x.to(dtype).to(working) if rounded else x
    mean = x.mean(-1, keepdim=True) if centred else torch.zeros((), dtype=working)
    rstd = torch.rsqrt((x - mean).square().mean(-1, keepdim=True) + (LAYER_EPS if centred else RMS_EPS))
    y = (x - mean) * rstd * scale
    if weighted:
        y = y * inputs[1 + adds].to(working)
    if centred:
        y = y + inputs[-1].to(working)
    statistics = [rstd.flatten(), mean.flatten()][: 1 + centred]
    kept = [s.to(torch.promote_types(dtype, torch.float32)) for s in statistics]
    return (y.to(dtype), x.to(dtype), *kept) if adds else y.to(dtype)


def launch(operator, **words):
    return partial(norm, operator, **words)


@over("operator", NORMS)
@over("layout", LAYOUTS)
def test_inputs(operator, layout):
    case = question(operator, (8, 3, 500), "float16", "shifted_1e2", layout)
    inputs = get(operator).make_inputs(case, "cpu", 1)
    adds, centred = NORMS[operator].adds, NORMS[operator].centred
    assert [x.shape for x in inputs] == [case.shape] * (1 + adds) + [(500,)] * (1 + centred)
    assert all(x.dtype is torch.float16 for x in inputs)
    assert float(inputs[0].double().mean()) == pytest.approx(100, abs=1)
    if adds:
        assert inputs[1].stride() == inputs[0].stride()
        assert float(inputs[1].double().std()) == pytest.approx(1, abs=0.2)
    weight = inputs[1 + adds].double()
    assert float(weight.mean()) == pytest.approx(1, abs=0.1)
    assert float(weight.std()) == pytest.approx(0.25, abs=0.05)
    if centred:
        assert float(inputs[-1].double().mean()) == pytest.approx(0, abs=0.1)
        assert float(inputs[-1].double().std()) == pytest.approx(0.5, abs=0.1)


def test_ideal_work_and_roofs():
    assert [get(name).roof for name in NORMS] == ["copy"] * 2 + ["streams"] * 2
    assert [get(name).ideal_flops(question(name, (4, 2, 8))) // 64 for name in NORMS] == [4, 7, 5, 8]


@over("shape", [(4, 8), (8,), (2, 2, 1)])
def test_ideal_bytes_are_those_of_the_tensors(shape):
    for name in NORMS:
        case = question(name, shape, "float16")
        inputs = get(name).make_inputs(case, "cpu", 0)
        tensors = (*inputs, *as_tuple(norm(name, *inputs)))
        assert get(name).ideal_bytes(case) == sum(t.numel() * t.element_size() for t in tensors), name


def exact(operator, rows, weight, bias):
    centred = operator.endswith("layernorm")
    mean = math.fsum(rows) / len(rows) if centred else 0.0
    variance = math.fsum((x - mean) ** 2 for x in rows) / len(rows)
    rstd = 1 / math.sqrt(variance + (LAYER_EPS if centred else RMS_EPS))
    y = [(x - mean) * rstd * w + b for x, w, b in zip(rows, weight, bias, strict=True)]
    return y, rstd, mean


@over("operator", NORMS)
@over("layout", ["contiguous", "transposed", "broadcast"])
@over("dtype", ["float16", "float64"])
@over("block", [4, 2**22])
def test_expected_agrees_with_exact_sums(operator, layout, dtype, block, monkeypatch):
    monkeypatch.setattr("softbench.cases.operators.norms.BLOCK_ELEMENTS", block)
    case = question(operator, (2, 3, 37), dtype, layout=layout)
    inputs = get(operator).make_inputs(case, "cpu", 0)
    adds, centred = NORMS[operator].adds, NORMS[operator].centred
    total = sum(x.double() for x in inputs[: 1 + adds]).reshape(6, 37)
    weight, bias = inputs[1 + adds].tolist(), inputs[-1].tolist() if centred else [0.0] * 37
    for index, found in rows_expected(case, inputs):
        assert sorted(found) == list(range(len(get(operator).output_specs(case))))
        y, rstd, mean = exact(operator, total[index].tolist(), weight, bias)
        assert found[0] == pytest.approx(y, rel=1e-12, abs=1e-13)
        if adds:
            assert found[1] == total[index].tolist()
            assert found[2] == pytest.approx([rstd], rel=1e-13)
        if adds and centred:
            assert found[3] == pytest.approx([mean], rel=1e-12, abs=1e-15)


@over("operator", NORMS)
def test_float32_arithmetic_passes_every_distribution_layout_and_shape(operator):
    asked = [(shape, dtype, word) for dtype, shapes in SHAPES.items() for shape in shapes for word in DISTRIBUTIONS]
    asked = [each for each in asked if each[1] == "float16" or each[2] not in HUGE]
    asked += [((3, 7, 33), dtype, "normal", layout) for dtype in DTYPES for layout in LAYOUTS]
    few = ((1,), (5,), (0, 5), (5, 0), (2, 0, 3), (2, 3, 4, 9), (65537, 2), (1, 262144))
    for how in (*asked, *((shape, "bfloat16") for shape in few)):
        assert fault(question(operator, *how), launch(operator)) == "", how


@over("operator", ["add_rmsnorm", "add_layernorm"])
@over("distribution", ["normal", "shifted_1e2"])
def test_the_sum_may_be_rounded_before_it_is_normalised(operator, distribution):
    for dtype in ("float16", "bfloat16", "float32"):
        case = question(operator, (6, 1001), dtype, distribution)
        for rounded in (False, True):
            assert fault(case, launch(operator, rounded=rounded)) == "", (dtype, rounded)


def one_pass(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) - mean.square() + LAYER_EPS)
    return (x - mean) * rstd * weight + bias


def test_one_pass_variance_fails_at_an_offset():
    assert fault(question("layernorm"), one_pass) == ""
    assert "row 0, column" in fault(question("layernorm", distribution="shifted_1e4"), one_pass)


@over("operator", NORMS)
@over("dtype", ["bfloat16", "float32"])
def test_wrong_kernels_are_rejected(operator, dtype):
    case = question(operator, (64, 1024), dtype)

    def changed(change):
        def run(*inputs):
            y, *others = as_tuple(norm(operator, *inputs))
            y = change(y, *inputs)
            return (y, *others) if others else y

        return run

    prefix = "output 0: " if NORMS[operator].adds else ""
    zeros = fault(case, changed(lambda y, *_: torch.zeros_like(y)))
    assert zeros.startswith(f"{prefix}every element is 0: row 0, column 0: got 0, expected ")
    tail = fault(case, changed(lambda y, *_: torch.cat([y[:, :-8], torch.full_like(y[:, -8:], -15.6)], 1)))
    assert tail.startswith(f"{prefix}wrong from column 1016 on")
    for wrong in (launch(operator, weighted=False), changed(lambda y, *_: y * 0.98)):
        assert "row 0, column" in fault(case, wrong)
    if dtype == "float32" or not NORMS[operator].adds:
        assert "row" in fault(case, launch(operator, scale=1.001))
    assert "row" in fault(case, launch(operator, inside=torch.bfloat16))
    if NORMS[operator].centred:
        for wrong in (lambda *i: norm(operator, *i[:-2], i[-1], i[-2]), changed(lambda y, *i: y - i[-1])):
            assert "row 0, column" in fault(case, wrong)


def test_eps_matters():
    case = question("rmsnorm", distribution="equal")
    assert fault(case, launch("rmsnorm")) == ""
    assert "row" in fault(case, lambda x, weight: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3) * weight)


@over("operator, number", [("add_rmsnorm", 1), ("add_rmsnorm", 2), ("add_layernorm", 3)])
@over("dtype", ["bfloat16", "float32"])
def test_every_output_is_looked_at(operator, number, dtype):
    case = question(operator, (64, 1024), dtype)

    def run(*inputs):
        outputs = norm(operator, *inputs)
        outputs[number][17] += 0.1
        return outputs

    assert fault(case, run).startswith(f"output {number}: row 17, column 0: got ")


def test_what_structure_says_of_several_outputs():
    case = question("add_rmsnorm", (4, 64), "bfloat16")
    right = launch("add_rmsnorm")
    assert "output 2: wrong dtype: bfloat16" in fault(case, lambda *i: (*right(*i)[:2], right(*i)[2].bfloat16()))
    assert "output 2: wrong shape: (4, 1)" in fault(case, lambda *i: (*right(*i)[:2], right(*i)[2][:, None]))
    assert "2 outputs were returned where 3" in fault(case, lambda *i: right(*i)[:2])
    assert "a list was returned where a plain tuple of 3 tensors" in fault(case, lambda *i: list(right(*i)))
    twice = fault(case, lambda *i: (*[right(*i)[1]] * 2, right(*i)[2]))
    assert twice == "outputs 0 and 1 have memory in common"
    assert not fault(case, lambda *i: (*torch.stack(right(*i)[:2]), right(*i)[2]))

    handed_on = fault(case, lambda x, r, w: (right(x, r, w)[0], r.view_as(r), right(x, r, w)[2]))
    assert handed_on == "output 1: the output is a view of the input's memory"

    def writes_weight(x, residual, weight):
        outputs = right(x, residual, weight)
        weight[5] = 0
        return outputs

    assert fault(case, writes_weight).startswith("input 2: the input was overwritten: 1 of 64 elements changed")


on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.gpu
@on_cuda
@over("operator", NORMS)
def test_float32_arithmetic_passes_on_cuda(operator):
    for distribution in set(DISTRIBUTIONS) - set(HUGE):
        case = question(operator, (65, 4097), "bfloat16", distribution)
        assert check(case, launch(operator), "cuda").reason == "", case.id


@pytest.mark.gpu
@on_cuda
@over("shape", [(7, 33), (1000, 1001), (4096, 4097)])
def test_temporaries_are_not_taken_for_an_overrun(shape):
    for dtype in ("bfloat16", "float32"):
        run = launch("add_layernorm", inside=torch.float64)
        assert check(question("add_layernorm", shape, dtype), run, "cuda").reason == "", dtype
