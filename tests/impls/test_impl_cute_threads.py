"""The row-wise kernels of impls/cute on a CPU, thread by thread, against their operators: `support.emulated_threads`."""

import itertools
from dataclasses import replace

import pytest
from support.settled import every

pytest.importorskip("torch")
pytest.importorskip("numpy")
import numpy as np
import torch
from support import depths
from support import emulated_threads as emulated
from support.bundled import known  # noqa: F401
from support.emulated_memory import tensor, values
from support.lined import OfLines

from impls.cute import _layouts, _plans, losses, masks
from impls.cute.htile.config import RowTileConfig
from impls.cute.htile.packing import PackedTileConfig
from impls.cute.htile.spans import SpanTileConfig
from softbench.cases import operators
from softbench.measure.check import compare
from softbench.model import Case

LAYOUTS = [
    RowTileConfig(64, 2, 1, 32, 8),  # rows of a warp
    RowTileConfig(600, 2, 1, 64, 64),  # warps
    RowTileConfig(520, 2, 1, 64, 64, "shared"),
    RowTileConfig(264, 4, 1, 64, 64, "shared"),
    RowTileConfig(328, 4, 1, 64, 64, "l1"),  # read twice
    RowTileConfig(712, 2, 2, 32, 32, "shared"),  # a cluster
    RowTileConfig(1400, 2, 2, 32, 32, "shared", beside=1),
    RowTileConfig(1029, 2, 1, 32, 32, "shared", False, beside=2),
    RowTileConfig(77, 4, 1, 32, 32, aligned=False),
    RowTileConfig(146, 2, 1, 32, 8, "shared", aligned=False),
    RowTileConfig(222, 4, 1, 32, 8, "shared", aligned=False),  # seven turns
    OfLines(1416, 2, 2, 32, 32, "shared", beside=1),
    OfLines(533, 4, 2, 32, 32, aligned=False),
    RowTileConfig(333, 2, 1, 64, 64, aligned=False, alike=True),
]
QUICK = [replace(c, quick=True) for c in LAYOUTS if c.keep == "registers" and c.group == 32]
SHORT_LAST = RowTileConfig(2277, 2, 8, 32, 32, aligned=False, alike=True)  # the last CTA's threads have no second vector
PACKED = [
    *(PackedTileConfig(columns, itemsize, 32, each) for columns, itemsize, each in ((1, 2, 1), (13, 4, 4), (34, 4, 16))),
    *(PackedTileConfig(127, 2, 64, 32, 4), PackedTileConfig(52, 2, 32, 4, 1, 4), PackedTileConfig(501, 2, 64, 64, 8)),
]
MASKED = [PackedTileConfig(5, 2, 32, 1), PackedTileConfig(33, 4, 32, 8), PackedTileConfig(577, 2, 64, 32, 4), *PACKED[1:]]
DTYPES = {2: ("bfloat16", "float16"), 4: ("float32",)}
LOSSES = ("cross_entropy_backward", "cross_entropy_both")


def kind(x):
    return "uint8" if x.dtype is torch.bool else str(x.dtype).removeprefix("torch.")


def computed(case, inputs, config, **flags):
    """The outputs of the kernel that has such a layout; rows of what it reads are apart, unless it is for dense ones."""
    plans = losses if case.operator in LOSSES else masks if case.operator.endswith(("ed_softmax", "causal_softmax")) else _plans
    builds = plans.of_case(case, _layouts.HOPPER, config.aligned and type(config) in (RowTileConfig, OfLines))
    build = next(build for build in builds if isinstance(config, type(build.config)))
    pad = 0 if type(config) is PackedTileConfig or config.alike else 8 if config.aligned else 1
    given = [tensor(x.float(), kind(x), pad * (x.dim() > 1)) for x in inputs]
    specs = operators.get(case.operator).output_specs(case)
    made = [tensor(np.full(spec.shape, np.nan), spec.dtype) for spec in specs]
    arguments = [*given, *made]
    if "norm" in case.operator:  # x, weight, bias, residual, y, residual_out, rstd, mean
        x, *residual, weight, bias = given if case.operator.endswith("layernorm") else (*given, None)
        arguments = [x, weight, bias, *(residual or [None]), *made, *[None] * (4 - len(made))]
    module, name = build.kernel.split(".")
    with emulated.family() as family:
        kernel = getattr(family(f"kernels.{module}"), name)(config, **dict(build.flags) | flags)
        emulated.launch(kernel.kernel, config, case.rows, *arguments)
    return tuple(torch.from_numpy(values(y)).to(getattr(torch, spec.dtype)) for y, spec in zip(made, specs, strict=True))


def inputs_of(case, seed=1):
    return operators.get(case.operator).make_inputs(case, "cpu", seed)


def fault(case, inputs, config, **flags):
    return compare(case, inputs, computed(case, inputs, config, **flags)).reason


@every(("config", "layer"), itertools.product(LAYOUTS, [False, True]))
def test_a_norm_of_mixed_dtypes_with_heads(config, layer):
    heads, columns, rows = 3, config.columns, 3 * config.rows
    own, other = ("float16", "float32") if config.itemsize == 2 else ("float32", "float16")
    pad = 8 if config.aligned else int(not config.alike)
    generator = torch.Generator().manual_seed(columns)
    x, residual = (torch.randn(rows, columns, generator=generator).half() + 0.5 for _ in range(2))
    weight, bias = (torch.randn(heads, columns, generator=generator).half() for _ in range(2))
    given = [*(tensor(x, own, pad), tensor(weight, other)), *(tensor(bias, own, 8), tensor(residual, other, pad))]
    empty = torch.full((rows, columns), torch.nan)
    made = [tensor(empty, own), tensor(empty, other), *(tensor(empty[:, 0]) for _ in "12")]
    with emulated.family() as family:
        kernel = family("kernels.norm").Norm(config, layer, 1e-5, heads=True)
        emulated.launch(kernel.kernel, config, rows, *given, *made[:3], made[3] if layer else None)
    t = x.double() + residual.double()
    mean = t.mean(1, keepdim=True) if layer else torch.zeros(rows, 1)
    rstd = ((t - mean).square().mean(1, keepdim=True) + 1e-5).rsqrt()
    y = (t - mean) * rstd * weight.repeat(rows // heads, 1) + bias.repeat(rows // heads, 1)
    right = (y, t, rstd[:, 0], *([mean[:, 0]] if layer else []))
    for got, expected in zip(made, right, strict=False):
        most = 1e-5 if got.element_type.width == 32 else 2e-3
        np.testing.assert_allclose(values(got), expected.numpy(), rtol=most, atol=most)


def test_a_funnel_takes_what_starts_anywhere():
    with emulated.family() as family:
        funnel = family("htile.registers").funnel
        for dtype, (size, count) in itertools.product(("float32", "float16"), [(8, 4), (12, 8), (16, 8)]):
            given = tensor(np.arange(size) - 2.5, dtype)
            for skip in range(size - count):
                assert (values(funnel(given, skip, count)) == values(given)[skip : skip + count]).all()


@every(("config", "operator"), itertools.product([*LAYOUTS, *MASKED], ["masked_softmax", "biased_softmax"]))
def test_what_is_seen_adds_up_to_one(config, operator):
    """Rows that see nothing, nothing but -inf, infinity or NaN too; NaN is where nothing is seen. The last CTA has them."""
    columns, dtype = config.columns, DTYPES[config.itemsize][0]
    rows = 5 + (config.rows if type(config) is PackedTileConfig else 0)
    case = Case(operator, (rows, columns), dtype, dtype, params=(("scale", 0.125),))
    x, mask = inputs = inputs_of(case)
    x[-4, 40 % columns], x[-3], x[-2, 5 % columns], x[-1, 60 % columns] = torch.inf, -torch.inf, torch.nan, torch.nan
    mask[-5] = mask[-1, 60 % columns] = mask[-3, ::2] = -torch.inf if operator == "biased_softmax" else 0
    (found,) = computed(case, inputs, config)
    assert not compare(case, inputs, found).reason
    assert compare(case, inputs, torch.where(found == 0, 1e-3, found)).reason


SPANS = [
    SpanTileConfig(64, 2, 1, 32, 8, window=64),
    SpanTileConfig(1024, 2, 1, 32, 32, window=128, line=2),
    SpanTileConfig(512, 2, 1, 64, 64, "shared", window=10**6),
    SpanTileConfig(1024, 4, 2, 32, 32, "shared", window=700, beside=1),
    SpanTileConfig(328, 4, 1, 64, 64, "l1", window=300),
    SpanTileConfig(712, 2, 2, 32, 32, window=712),
    SpanTileConfig(77, 4, 1, 32, 32, aligned=False, window=77),
    SpanTileConfig(333, 2, 1, 32, 16, aligned=False, window=50, line=1),
    SpanTileConfig(146, 2, 1, 32, 8, "shared", False, window=1),
]


@every(("config", "alibi"), itertools.product(SPANS, [0.0, 0.5]))
def test_spans_of_any_place(config, alibi):
    """Rows that see nothing, nothing but -inf, infinity or NaN too; NaN is where nothing is seen, and slopes of nothing."""
    columns, dtype = config.columns, DTYPES[config.itemsize][0]
    case = Case(
        "causal_softmax", (10, columns), dtype, dtype, params=(("scale", 0.125), ("window", config.window), ("alibi", alibi))
    )
    x, last, slope = inputs = inputs_of(case)
    last[:] = torch.tensor([columns - 1, 0, -1, columns // 2, columns // 3, 40, 41, columns - 1, columns - 2, 3])
    x[4:8, 40 % columns] = torch.tensor([torch.nan, torch.nan, torch.inf, 1])
    x[7, :] = -torch.inf
    slope[2] = torch.nan
    distance = last[:, None] - torch.arange(columns)
    x[(distance < 0) | (distance >= config.window)] = torch.nan
    (found,) = computed(case, inputs, config)
    assert not compare(case, inputs, found).reason
    assert compare(case, inputs, torch.where(found == 0, 1e-3, found)).reason


PAIRS = {2: [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("float16", "float16")], 4: [("float32", "float32")]}
MANY_WARPS = RowTileConfig(9216, 2, 4, 288, 288)  # pairs of 36 warps, more than the threads of one; the row rises to its end


@every(
    ("config", "dtypes", "online"),
    [
        *((c, dtypes, True) for c in (*LAYOUTS, *QUICK) for dtypes in PAIRS[c.itemsize]),
        *((c, PAIRS[c.itemsize][0], False) for c in LAYOUTS if c.peers > 1),
        *((c, PAIRS[2][0], True) for c in (MANY_WARPS, replace(MANY_WARPS, quick=True))),
    ],
)
def test_what_lies_far_below_the_peak_is_not_lost(config, dtypes, online):
    x = torch.cat([depths.peaks(config.columns, 8), depths.rows(config.columns, "float32", 6)])
    if config.columns == MANY_WARPS.columns:
        x = depths.slopes(9216, 2)[1:]
    x = x.to(getattr(torch, dtypes[0]))
    assert not fault(Case("softmax", tuple(x.shape), *dtypes), (x,), config, online=online)


@every(("config", "operator"), [*itertools.product([*LAYOUTS, *QUICK], ["log_softmax"]), *itertools.product(QUICK, ["softmax"])])
def test_logarithms_are_right_down_to_masks(config, operator):
    """A row each of normals, of a peak, with masks, that sees nothing, far from 0, with an infinity, and with a NaN."""
    for dtype in DTYPES[config.itemsize]:
        case = Case(operator, (7, config.columns), dtype, dtype)
        x = torch.randn(7, config.columns, generator=torch.Generator().manual_seed(1))
        x[1, 7], x[2, 1:], x[3], x[4], x[5, 40], x[6, 40] = 40, -torch.inf, -torch.inf, 1e4 + x[4], torch.inf, torch.nan
        x = x.to(getattr(torch, dtype))
        (y,) = computed(case, (x,), config)
        assert not compare(case, (x,), y).reason, dtype
    assert compare(case, (x,), y + 1e-2 * (x > 1)).reason


@every(("config", "operator"), itertools.product(LAYOUTS, LOSSES))
def test_losses_are_right(config, operator):
    """Each layout with another of the hard inputs, which every second has with smoothing and z."""
    hard, number = operators.get(operator).hard, LAYOUTS.index(config)
    if operator.endswith("backward"):
        config = replace(config, apart=config.cluster > 1, keep="registers", beside=0)
    own, *_, last = DTYPES[config.itemsize] * 2
    asked = (own, own, hard[number % len(hard)]), (last, "float32", "normal")
    for words, params in zip(asked, ((-100, 0, 0), (0, 0.1, 1e-4))[:: 1 - number % 2 * 2], strict=True):
        named = tuple(zip(("ignore", "smoothing", "z"), params, strict=True))
        case = Case(operator, (6, config.columns), *words[:2], "contiguous", words[2], False, named)
        assert not fault(case, inputs_of(case), config), case.id


NORMS = ("rmsnorm", "layernorm", "add_rmsnorm", "add_layernorm")


@every(("config", "operator"), itertools.product([*LAYOUTS, SHORT_LAST], NORMS))
def test_parts_of_a_row_that_differ(config, operator):
    """Eight stretches around heights of their own, all of them far from 0: a mean is off, and must not move the deviation."""
    dtype = DTYPES[config.itemsize][0]
    for offset in (1e2, 1e4, 1e5):
        case = Case(operator, (2, config.columns), dtype, dtype)
        inputs = inputs_of(case)
        generator = torch.Generator().manual_seed(3)
        heights = (60 * torch.randn(2, 8, generator=generator) + offset).repeat_interleave(-(-config.columns // 8), 1)
        heights = heights[:, : config.columns]
        inputs[0].copy_(heights + torch.randn(heights.shape, generator=generator))
        assert not fault(case, inputs, config), offset


@every("config", LAYOUTS)
def test_the_gradient_of_a_logarithm_is_right_down_to_masks(config):
    for dtype, word in itertools.product(DTYPES[config.itemsize][:1], ("y-padding_inf", "peaked")):
        case = Case("log_softmax_backward", (3, config.columns), dtype, dtype, distribution=word)
        assert not fault(case, inputs_of(case), config), case.id


@every("config", LAYOUTS)
def test_a_gradient_has_the_smallest_results(config):
    dtype = DTYPES[config.itemsize][0]
    case = Case("softmax_backward", (12, config.columns), dtype, dtype)
    _, y = inputs = inputs_of(case)
    y.copy_(torch.softmax(depths.rows(config.columns, "float32", 12), 1))
    smallest = torch.finfo(y.dtype).smallest_normal
    assert ((y > 0) & (y < smallest)).any()
    (dx,) = computed(case, inputs, config)
    assert ((dx != 0) & (dx.abs() < smallest)).any()
    assert not compare(case, inputs, dx).reason


@every(("config", "operator"), itertools.product(PACKED, ("softmax", "softmax_backward", *NORMS[:2], NORMS[3])))
def test_packed_rows(config, operator):
    """The last CTA has one row."""
    for dtype in DTYPES[config.itemsize][: 2 if operator == "softmax" else 1]:
        case = Case(operator, (config.rows + 1, config.columns), dtype, dtype)
        inputs = inputs_of(case, config.columns)
        if operator == "softmax":
            inputs[0].copy_(depths.rows(config.columns, dtype, case.rows))
        assert not fault(case, inputs, config), (case.id, config)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0])
@pytest.mark.parametrize("others", [-np.inf, -3.0, 2.0])
def test_a_warps_largest_value(bits, others):
    """NaN of either sign and any payload, and both infinities and zeros."""
    one, found = np.uint32(bits).view(np.float32), {}

    def kernel(reduce):
        thread = emulated.here.thread
        found[thread] = reduce.warp_reduce(one if thread == 5 else np.float32(others), reduce.MAX, 32)

    with emulated.family() as family:
        reduce = family("htile.reduce")
        emulated.launch(kernel, RowTileConfig(32, 4, 1, 32, 32), 1, reduce)
    assert set(map(str, found.values())) == {str(np.maximum(one, np.float32(others)))}


@pytest.mark.parametrize("largest", [16.0, 95381.0, 3052192.0])
@pytest.mark.parametrize("power", [0, 1, 40])
def test_a_warps_sum_of_numbers_up_to_the_largest(largest, power):
    numbers, found = np.float32(largest * np.random.default_rng(1).random(32) ** power), set()

    def kernel(quick):
        found.add(quick.total(numbers[emulated.here.thread], largest))

    with emulated.family() as family:
        emulated.launch(kernel, RowTileConfig(32, 4, 1, 32, 32), 1, family("htile.quick"))
    (total,), exact = found, numbers.sum(dtype=np.float64)
    assert abs(total - exact) <= exact * 2.0**-23 + largest * 2.0**-40
