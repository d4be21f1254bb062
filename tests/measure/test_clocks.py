"""How a sample is planned, and the buffers that it is taken on."""

import math

from support.grids import over
from support.paths import ROOT

from softbench.cases import matrix, operators
from softbench.measure import check
from softbench.measure.clocks import Placement
from softbench.measure.plans import MAX_LAUNCHES, MIN_LAUNCHES, REPLAY_NS, Plan, plan_graph, plan_wall
from softbench.model import BALANCE, DTYPE_BYTES, Case

L2_BYTES = 62_914_560  # H200, H100 and H800 report 60 or 50 MiB
PEAK_GB_S = 4814.0  # H200
SHAPES = matrix.load(ROOT / "shapes.yaml")


def planned(case, l2_bytes=L2_BYTES):
    """The plan of a softmax case, and the bytes of its input, which are those of its output as well."""
    one = case.elements * DTYPE_BYTES[case.dtype]
    return plan_graph(one, one, l2_bytes, PEAK_GB_S), one


@over("case", SHAPES.profile("published"))
def test_published_shapes_are_cold(case):
    plan, one = planned(case)
    assert plan.cache == "cold"
    assert MIN_LAUNCHES <= plan.launches <= MAX_LAUNCHES
    assert 1 <= plan.inputs <= plan.launches
    assert plan.inputs * one + plan.launches * one >= 2 * L2_BYTES
    assert plan.launches * 2 * one / PEAK_GB_S >= 0.99 * REPLAY_NS  # 1.5 us of an event pair weigh 0.3 %
    assert plan.bytes_held(one, one) == plan.inputs * one + plan.launches * one


@over("case", [c for c in SHAPES.profile("gpu") if c.elements > 1 << 17])
def test_an_input_comes_round_again_only_behind_twice_the_cache(case):
    plan, one = planned(case)
    if plan.cache == "cold" and plan.inputs < plan.launches:
        assert plan.inputs * one >= 2 * L2_BYTES


@over(
    ("shape", "dtype", "cache", "launches"),
    [
        ((1, 256), "float16", "warm", 500),
        ((1, 1024), "float32", "warm", 500),
        ((1, 61440), "float16", "warm", 500),  # 512 launches would be twice 60 MiB
        ((1, 131072), "float16", "cold", 313),  # 1.6 us each, not the 0.1 us of its bytes
        ((16, 131072), "float16", "cold", 287),
        ((4096, 131072), "float16", "cold", 2),
        ((65537, 65536), "float16", "cold", 2),
    ],
)
def test_plans_of_marked_shapes(shape, dtype, cache, launches):
    plan, _ = planned(Case("softmax", shape, dtype, dtype))
    assert (plan.cache, plan.launches) == (cache, launches)


def test_500_launches_flush_a_cache_of_125_mib():
    case = Case("softmax", (1, 131072), "float16", "float16")
    assert [planned(case, size << 20)[0].cache for size in (60, 125, 126)] == ["cold", "cold", "warm"]


@over("case", SHAPES.profile("attention"))
def test_longer_arithmetic_has_fewer_launches(case):
    """By their bytes alone 18 launches of 2.5 ms would be a millisecond."""
    flops_ns = operators.counted_flops(case) / (BALANCE * PEAK_GB_S)
    moved = operators.get(case.operator).ideal_bytes(case)
    plan = plan_graph(moved // 2, moved - moved // 2, L2_BYTES, PEAK_GB_S, flops_ns)
    least_ns = max(flops_ns, moved / PEAK_GB_S)
    assert plan.launches * moved >= 2 * L2_BYTES or plan.launches == MAX_LAUNCHES
    assert plan.launches * least_ns >= 0.99 * REPLAY_NS or plan.launches == MAX_LAUNCHES
    fewer = max(MIN_LAUNCHES, math.ceil(2 * L2_BYTES / moved))
    assert plan.launches == fewer or (plan.launches - 1) * least_ns < REPLAY_NS


@over(
    ("read", "written", "arithmetic_ns", "is_reused"),
    [
        *((2**26, 2**26, 0.0, True), (2**26 + 4096, 2**26, 0.0, True)),  # a copy; weights
        *((2**27, 2**26, 0.0, False), (2**28, 2**10, 0.0, False), (2**26, 2**26, 1e6, False)),  # a gradient; a loss; arithmetic
    ],
)
def test_no_input_comes_twice_where_a_cache_would_gain(read, written, arithmetic_ns, is_reused):
    plan = plan_graph(read, written, L2_BYTES, PEAK_GB_S, arithmetic_ns)
    assert (plan.inputs < plan.launches) == is_reused


@over("sizes", [(0, 0), (0, 4096), (4096, 0)])
def test_a_side_without_bytes_is_planned(sizes):
    plan = plan_graph(*sizes, L2_BYTES, PEAK_GB_S)
    assert 1 <= plan.inputs <= plan.launches <= MAX_LAUNCHES


@over(("call_ns", "launches"), [(0.0, 200), (1.0, 200), (5_000, 200), (10_000, 100), (300_001, 4), (1e6, 1), (1e12, 1)])
def test_a_wall_sample_lasts_a_millisecond(call_ns, launches):
    assert plan_wall(call_ns) == Plan(launches, 2, "")


def test_who_computes_an_input_once_is_found_by_its_repetition():
    softmax, case = operators.get("softmax"), Case("softmax", (8, 64), "float32", "float32")
    buffers = Placement(softmax, case, "cpu", Plan(4, 2, ""), seed=1)
    computed = {}

    def kept(x):
        if x.data_ptr() not in computed:
            computed[x.data_ptr()] = x.softmax(-1)
        return computed[x.data_ptr()].clone()

    def reason(launch):
        return check.compare(case, *buffers.repeat(launch)).reason

    assert reason(lambda x: x.softmax(-1)) == ""
    assert "row" in reason(kept)
