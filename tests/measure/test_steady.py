"""Placements of an unsteady GPU."""

import pytest
from support import builders as make
from support.grids import over
from support.simulated import DEAD, at

from softbench.analysis import leaderboard
from softbench.measure.contest import steady
from softbench.measure.contest.rounds import ROUNDS
from softbench.model import Status, Telemetry, stats
from softbench.records import store

FINE = Telemetry(1980, 3201, 400, 45)
HOT = Telemetry(1980, 3201, 400, 91, "sw_thermal")
CAPPED = Telemetry(1900, 3201, 700, 60, "power_cap")
SLOW = Telemetry(1500, 3201, 700, 60, "power_cap")
LOW = Telemetry(1980, 2619)
WHY = {
    HOT: "throttled (sw_thermal)",
    SLOW: "SM clock 1500 MHz where 1980 MHz is the heat's",
    LOW: "memory clock 2619 MHz where 3201 MHz is the heat's",
}


def measured(world, readings, *entrants, budget_s=1e9):
    """A heat whose placements read these, and then the last of them."""
    left = list(readings)
    slow = {HOT: 1.2, SLOW: 1.3, LOW: 1.3}

    def changed(entrant, request, answer):
        if request["op"] == "turn" and answer.ok:
            answer.data["ns"] = round(answer.data["ns"] * slow.get(left[0], 1.0))
            world.now_ns += answer.data["ns"]
        return answer

    world.changed = changed
    return world.heat(*entrants, budget_s=budget_s, read_telemetry=lambda: left.pop(0) if len(left) > 1 else left[0])


def placed(entrant, clock="graph"):
    """The placements (from 1) in which there are rounds by a clock."""
    return [p + 1 for s in entrant.samples if s.clock == clock for p, rounds in enumerate(s.ns) if rounds]


@pytest.mark.parametrize("bad", [HOT, SLOW, LOW], ids=["throttled", "SM clock", "memory clock"])
@pytest.mark.parametrize("number", [1, 4, 8])
def test_an_unsteady_placement_is_measured_again(world, bad, number):
    a, b = world.pair(1.02e6)
    heat = measured(world, [FINE] * (number - 1) + [bad, FINE], a, b)
    assert heat.stopped == "decided after 8 placements"
    for entrant in (a, b):
        assert placed(entrant) == [p for p in range(1, 10) if p != number]
        assert placed(entrant, "unsteady") == [number]
        (aside,) = (s for s in entrant.samples if s.clock == "unsteady")
        slow = aside.ns[number - 1]
        assert (len(slow), aside.launches, aside.heat) == (ROUNDS, 20, 7)
        assert min(slow) > 1.1 * max(map(max, filter(None, entrant.samples[0].ns)))
        assert [r == bad for r in entrant.telemetry] == [p == number for p in range(1, 10)]
    assert heat.notes() == ["heat 7: decided after 8 placements", f"heat 7, placement {number} does not count: {WHY[bad]}"]


def test_a_power_limit_and_no_telemetry_are_facts(world):
    for readings in ([CAPPED], [CAPPED, Telemetry(1935, 3201, 690, 60), CAPPED], [Telemetry()]):
        a = world.enter(f"a{len(readings)}")
        heat = measured(world, readings, a)
        assert heat.notes() == ["heat 7: decided after 8 placements"]
        assert placed(a) == list(range(1, 9))


def test_a_gpu_that_stays_throttled_is_measured_as_it_is(world):
    a, b = world.pair(1.02e6)
    heat = measured(world, [HOT], a, b)
    assert heat.stopped == "decided after 8 placements"
    assert placed(a, "unsteady") == list(range(1, 9))
    assert placed(a) == list(range(9, 17))
    assert stats.compare(b.samples[0], a.samples[0]).verdict == "slower"
    assert heat.notes()[1:] == [
        f"heat 7, placement {', '.join(map(str, numbers))} {fate}: throttled (sw_thermal)"
        for fate, numbers in (("does not count", range(1, 9)), ("counts all the same", range(9, 17)))
    ]


def test_clocks_that_stay_down_are_the_heats_from_then_on(world):
    a = world.enter("a")
    heat = measured(world, [FINE, CAPPED, SLOW], a)
    assert placed(a, "unsteady") == [3, 4]
    assert placed(a) == [1, 2, *range(5, 11)]
    said = [note.partition(" where ")[0] for note in heat.notes()[1:]]
    assert said == [f"heat 7, placement {number} does not count: SM clock 1500 MHz" for number in (3, 4)]


@pytest.mark.parametrize(("readings", "kept"), [([FINE, FINE, HOT], [1, 2]), ([HOT, HOT, FINE], [1, 2])])
def test_after_the_deadline_two_placements_count(world, readings, kept):
    a = world.enter("a", spread=0)
    heat = measured(world, readings, a, budget_s=0)
    assert heat.stopped == "out of budget after 2 placements"
    assert placed(a) == kept
    assert any("counts all the same" in note for note in heat.notes()) == (readings[0] is HOT)


def test_what_a_look_has_seen_stays(world):
    """Or else an entrant that was decided there would lose a placement that is not measured again."""
    (a, b), far = world.pair(spread=8), world.enter("far", 1.2e6)
    measured(world, [FINE] * 8 + [Telemetry(2100, 3201)], a, b, far)
    assert placed(far) == list(range(1, 9))
    assert placed(a, "unsteady") == []
    assert placed(a) == list(range(1, 33))


def test_the_readings_between_rounds_count(world):
    """A throttling that is over when a placement ends is seen, and what is read is the worst of it."""
    slowed, calls = Telemetry(1700, 3201, 650, 80, "power_cap+hw_slowdown"), []

    def read():
        calls.append(slowed if len(calls) == 1 else FINE)
        return calls[-1]

    a = world.enter("a", 1.2e8, spread=0)  # every round is longer than steady.EVERY_S
    world.heat(a, read_telemetry=read)
    assert a.telemetry[0] == slowed
    assert placed(a, "unsteady") == [1]
    assert len(calls) > 8 * ROUNDS


def test_a_failure_near_an_unsteady_placement_stays(world):
    a, bad = world.enter("a"), world.enter("bad", fault=at("turn", 3, DEAD))
    measured(world, [FINE, HOT, FINE], a, bad)
    assert (bad.status, bad.samples) == (Status.CRASHED, [])
    assert placed(a) == [1, *range(3, 10)]


@over(
    "readings, worst",
    [
        ([Telemetry()], Telemetry()),
        ([Telemetry(), FINE], FINE),
        ([FINE, Telemetry(1900, 3200, 500, 40, "a"), Telemetry(throttle="b+a")], Telemetry(1900, 3200, 500, 45, "a+b")),
    ],
)
def test_several_readings_are_one(readings, worst):
    assert steady.merged(readings) == worst


@over("clock, is_fault", [(1980, False), (1935, False), (1921, False), (1920, True), (None, False)])
def test_the_threshold(clock, is_fault):
    reading = Telemetry(clock, 3201)
    assert bool(steady.fault(reading, [FINE] * 5 + [reading])) is is_fault


def test_what_was_set_aside_is_stored_and_ranks_nobody(world, tmp_path):
    a, b = world.pair(1.02e6)
    heat = measured(world, [FINE, HOT, FINE], a, b)
    for entrant in (a, b):
        entrant.notes += heat.notes()
        entrant.settle(Status.PASSED, "")
    case = make.softmax_case()
    run = store.read(make.written(tmp_path, *(e.record(case, 100, 0, "again") for e in (a, b))))
    assert [s.clock for s in run.records[0].samples] == ["graph", "unsteady"]
    assert "placement 2 does not count" in run.records[0].notes[-1]
    cells = leaderboard.build(run).cases[0].cells
    assert cells["a"].latency_ns == pytest.approx(1e6 / 20, rel=5e-3)
    assert [cells[name].rank for name in "ab"] == [1, 2]
    assert cells["a"].is_unsteady
