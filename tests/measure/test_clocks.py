import gc
import math
import threading
import time

import pytest
from support.builders import softmax_case
from support.grids import over
from support.paths import ROOT

from softbench.cases import matrix, operators
from softbench.measure import check
from softbench.measure.clocks import COMPARED_CALLS, Placement
from softbench.measure.guards.two_clocks import disagreement
from softbench.measure.incorrect import WrongWhenTimed
from softbench.measure.plans import MAX_LAUNCHES, MIN_LAUNCHES, REPLAY_NS, Plan, plan_graph, plan_wall
from softbench.measure.wall import WallClock
from softbench.model import BALANCE, DTYPE_BYTES

L2_BYTES = 62_914_560  # H200, H100 and H800 report 60 or 50 MiB
PEAK_GB_S = 4814.0
SHAPES = matrix.load(ROOT / "shapes.yaml")
CASE = softmax_case(4, 64, "float32")


def planned(case, l2_bytes=L2_BYTES):
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
def test_an_input_comes_again_behind_twice_the_cache(case):
    plan, one = planned(case)
    if plan.cache == "cold" and plan.inputs < plan.launches:
        assert plan.inputs * one >= 2 * L2_BYTES


MARKED = [
    ((1, 256), "float16", "warm", 500),
    ((1, 1024), "float32", "warm", 500),
    ((1, 61440), "float16", "warm", 500),  # 512 launches would be twice 60 MiB
    ((1, 131072), "float16", "cold", 313),  # 1.6 us each, not the 0.1 us of its bytes
    ((16, 131072), "float16", "cold", 287),
    ((4096, 131072), "float16", "cold", 2),
    ((65537, 65536), "float16", "cold", 2),
]


@over("shape, dtype, cache, launches", MARKED)
def test_plans_of_marked_shapes(shape, dtype, cache, launches):
    plan, _ = planned(softmax_case(*shape, dtype))
    assert (plan.cache, plan.launches) == (cache, launches)


def test_500_launches_flush_a_cache_of_125_mib():
    assert [planned(softmax_case(1, 131072), size << 20)[0].cache for size in (60, 125, 126)] == ["cold", "cold", "warm"]


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
    "read, written, arithmetic_ns, is_reused",
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


@over("call_ns, launches", [(0.0, 200), (1.0, 200), (5_000, 200), (10_000, 100), (300_001, 4), (1e6, 1), (1e12, 1)])
def test_a_wall_sample_lasts_a_millisecond(call_ns, launches):
    assert plan_wall(call_ns) == Plan(launches, 2, "")


def test_who_computes_an_input_once_is_found():
    buffers = Placement(operators.get("softmax"), CASE, "cpu", Plan(4, 2, ""), seed=1)
    computed = {}

    def reason(launch):
        return check.compare(CASE, *buffers.repeat(launch)).reason

    assert reason(lambda x: x.softmax(-1)) == ""
    assert "row" in reason(lambda x: computed.setdefault(x.data_ptr(), x.softmax(-1)).clone())


def placed(launch, launches=5, inputs=2, case=CASE):
    return WallClock().place(operators.get("softmax"), case, launch, Plan(launches, inputs, ""), 1, None)


def test_inputs_come_round_and_every_output_is_kept():
    seen = []
    place = placed(lambda x: (seen.append(x.data_ptr()), x + 1)[1])
    one, two = (inputs[0] for inputs in place.buffers.inputs)
    assert not one.equal(two)
    assert place.turn() > 0
    a, b = one.data_ptr(), two.data_ptr()
    assert seen == [b, a, b, a, b, a]  # the first is not timed
    outputs = place.buffers.outputs
    assert len({t.data_ptr() for t in outputs}) == len(outputs) == 5
    for _ in range(20):
        picked = place.buffers.pick()
        assert 4 <= len(picked) <= 5  # a call may be drawn twice
        assert all(y.equal(x + 1) for (x,), y in picked)


@over("launches, count", [(5, 2), (1, 2), (3, 3), (2, 1), (100, 2)])
def test_each_turn_changes_one_element_and_picks_its_call_and_the_last(launches, count):
    place = placed(lambda x: x + 1, launches, count)
    inputs = [x for (x,) in place.buffers.inputs]
    for _ in range(20):
        before, versions = [x.clone() for x in inputs], [x._version for x in inputs]
        place.turn()
        changed = [int((x != old).sum()) for x, old in zip(inputs, before, strict=True)]
        assert sorted(changed) == [0] * (count - 1) + [1]
        assert [x._version for x in inputs] == versions  # no cache learns of it without reading
        moved = changed.index(1)
        picked = place.buffers.pick()
        assert any(x is inputs[moved] for (x,), _ in picked)
        assert picked[0][1] is place.buffers.outputs[-1]
        assert len(picked) <= COMPARED_CALLS + 1
        assert all(y.equal(x + 1) for (x,), y in picked)


def test_a_wall_turn_times_its_calls_alone_by_the_first_timer(monkeypatch):
    slept = iter([0.02, *[0.002] * 5])
    place = placed(lambda x: time.sleep(next(slept)))
    for name in ("perf_counter_ns", "perf_counter", "time_ns", "monotonic_ns"):
        monkeypatch.setattr(time, name, lambda: 0)
    assert 10_000_000 <= place.turn() < 20_000_000


@over("name", ["now", "other"])
def test_a_replaced_clock_is_not_believed(name):
    place = placed(lambda x: x + 1)
    right = getattr(place.clock, name)
    for clock in (o for o in gc.get_objects() if type(o) is WallClock):
        setattr(clock, name, lambda *a: right(*a) // 10)
    with pytest.raises(WrongWhenTimed, match=": patched: a clock of the harness was replaced"):
        place.turn()
    place = placed(lambda x: x + 1)
    place.clock.now = time.process_time_ns  # a function of Python by another name is no clock either
    with pytest.raises(WrongWhenTimed, match="patched"):
        place.turn()


TIMES = [
    (1_000_000, 999_900, 1_000_100, True),
    (1_000_000, 999_900, 9_000_000, True),  # the process rested between two readings
    (1_000_000, 1_005_000, 1_005_200, True),  # the system slews one of them
    (100_000, 999_900, 1_000_100, False),
    (1_000_000, 99_900, 100_100, False),
    (-5_000, 10, 100, False),
]


@over("ns, least, most, is_believed", TIMES)
def test_a_time_lies_between_those_of_the_other_clock(ns, least, most, is_believed):
    assert (disagreement(ns, least, most) == "") is is_believed


def test_a_late_write_is_seen_though_right_by_then():
    import torch

    threads = []

    def work(x, y):
        time.sleep(0.02)
        y.copy_(x.softmax(-1))

    def launch(x):
        y = torch.empty_like(x)
        threads.append(threading.Thread(target=work, args=(x, y)))
        threads[-1].start()
        return y

    place = placed(launch)
    place.turn()
    for thread in threads:
        thread.join()
    assert all(y.equal(x.softmax(-1)) for (x,), y in place.buffers.pick())
    assert place.buffers.changed().startswith("left unfinished: ")


def test_nan_that_stays_has_not_changed():
    import torch

    empty = placed(lambda x: x + 1, case=softmax_case(0, 64, "float32"))
    for place in (placed(lambda x: (torch.full_like(x, math.nan).T, x.sum(-1))), empty):
        place.turn()
        assert place.buffers.changed() == ""


def test_no_placement_is_changed_or_asked_what_will_be_compared():
    """What is drawn comes from the system: an object that holds a state would be copied and asked first."""
    place = placed(abs)
    with pytest.raises(AttributeError):
        place.turn = lambda: 1
    with pytest.raises(NotImplementedError):
        place.buffers._rng.getstate()
