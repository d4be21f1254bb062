"""What a run does with the calibrations of its clocks."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support import builders as make
from support.calibrations import BLIND, CALL, FAST, RIGHT, WHY
from support.grids import over
from support.simulated import CARD, IDLE, World

from softbench.analysis import leaderboard
from softbench.doctor import known_durations
from softbench.measure.contest import calibrating as parent
from softbench.measure.contest import contest as contest_module
from softbench.measure.contest import measuring
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Measuring, Rules
from softbench.measure.contest.preparing import Preparation
from softbench.measure.contest.workers import Answer
from softbench.measure.plans import Plan
from softbench.model import Calibration, calibration
from softbench.records import retries
from softbench.render.report.trust import checks
from softbench.session import session
from softbench.session.selection import Selection

CASE = make.softmax_case(32768, 1024)


def measured(monkeypatch, *calibrations):
    world = World(monkeypatch)
    entrants = [world.enter("copy", 0.9e6, role="roof"), world.enter("a"), world.enter("b")]
    monkeypatch.setattr(measuring, "Asker", lambda *_: world.ask)
    monkeypatch.setattr(Preparation, "run", lambda self, entrants: None)
    Measuring(make.softmax_case(), entrants, Rules(budget_s=1e9), IDLE, CARD, calibrations=calibrations).run(3)
    assert all(entrant.is_open for entrant in entrants)
    return world, entrants[1].notes


def test_nobody_is_ranked_by_a_clock_that_is_off(monkeypatch):
    world, notes = measured(monkeypatch, FAST, CALL)
    assert {operation for operation, _ in world.log} == {"call"}
    assert notes == [f"no graph clock: {WHY}"]
    world, notes = measured(monkeypatch, RIGHT, CALL)
    assert {operation for operation, _ in world.log} >= {"place", "turn", "call"}
    assert not any("clock" in note for note in notes)


@over(
    "found, kept", [((RIGHT, CALL), {"call", "cold"}), ((FAST, CALL), {"call"}), ((RIGHT, replace(FAST, clock="call")), {"cold"})]
)
def test_samples_of_a_clock_that_is_off_are_not_kept(monkeypatch, found, kept):
    world = World(monkeypatch)
    entrant = world.enter("a")
    both = Answer(True, {"call": [[7]], "cold": [[9]]})
    monkeypatch.setattr(measuring, "Asker", lambda *_: lambda asked: dict.fromkeys(asked, both))
    made = Measuring(make.softmax_case(), [entrant], Rules(), SimpleNamespace(), CARD, calibrations=found)
    made._calls([entrant], Plan(500, 500, "warm"), CARD)
    assert {samples.clock for samples in entrant.samples} == kept


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(Preparation, "run", lambda self, entrants: None)
    monkeypatch.setattr(Measuring, "_measure", lambda *_: None)
    return SimpleNamespace(everyone=lambda *_: None, close=lambda: None, living=["a worker"])


def calibrated(pool, rows):
    made = Contest(Rules(), pool, CARD, calibrations=None)
    return [made.run(make.softmax_case(n), [make.variant("a")])[0].calibrations for n in rows]


def test_clocks_are_checked_once_and_stored_once_per_case(monkeypatch, pool):
    calls = []
    monkeypatch.setattr(parent, "calibrate", lambda pool, l2, *, device, **_: calls.append(device) or (RIGHT, CALL))
    made = Contest(Rules(device_clock=True), pool, CARD, calibrations=None)
    variants = [make.variant("a"), make.variant("b")]

    def found(case):
        return [record.calibrations for record in made.run(case, variants)]

    assert found(make.softmax_case(timed=False)) == [(), ()]
    assert calls == []
    assert found(make.softmax_case()) == found(make.softmax_case(8)) == [(RIGHT, CALL), ()]
    assert calls == [True]
    Contest(Rules(), pool, CARD).run(make.softmax_case(), variants)  # told that nobody needs to know
    Contest(Rules(), pool, None, calibrations=None).run(make.softmax_case(), variants)
    assert calls == [True]


def test_disturbed_clocks_are_checked_again(monkeypatch, pool):
    answers = iter([(FAST, CALL), (FAST, CALL), (RIGHT, CALL)])
    monkeypatch.setattr(parent, "calibrate", lambda *_, **__: next(answers))
    assert calibrated(pool, (1, 2, 3, 4)) == [(FAST, CALL)] * 2 + [(RIGHT, CALL)] * 2


def test_a_call_clock_that_stays_off_is_tried_five_times(monkeypatch, pool):
    tried = []
    monkeypatch.setattr(parent, "calibrate", lambda *_, **__: tried.append(0) or (RIGHT, replace(FAST, clock="call")))
    calibrated(pool, range(1, 9))
    assert len(tried) == contest_module.CALL_CALIBRATIONS


@over("clocks, due", [((FAST, CALL), True), ((RIGHT, CALL), False), ((RIGHT, BLIND), False)])
def test_a_refused_ranking_clock_is_measured_again(clocks, due):
    assert retries.is_due(run_with(*clocks).records, "graph") == due


def run_with(*calibrations):
    return make.run([make.timed(CASE, "a", 5e4, calibrations=calibrations), make.timed(CASE, "b", 6e4)])


def on_the_page(run):
    return {check.text: check.good for check in checks(leaderboard.build(run))}


def test_the_page_says_how_the_clocks_stand():
    known = "clocks checked against kernels of known duration: graph, call, times right within 0.15%; ranks rest on ratios"
    assert on_the_page(run_with(RIGHT, CALL))[known]
    assert on_the_page(run_with(FAST, CALL))[f"the graph clock {WHY}; it was not used"] is False
    assert on_the_page(run_with(RIGHT, BLIND))["the device clock was not checked: the profiler saw nothing on the GPU"] is False
    clocks = {32: FAST, 64: RIGHT, 128: RIGHT}
    run = make.run([make.timed(make.softmax_case(rows), "a", 5e4, calibrations=(c, CALL)) for rows, c in clocks.items()])
    assert on_the_page(run)[f"the graph clock {WHY}, in 1 of 3 cases; it was not used"] is False
    assert "known duration" not in "".join(on_the_page(run_with())), "an older run"


def test_the_terminal_warns_once_of_each_clock(monkeypatch):
    lines = []
    plugins = {"terminalreporter": SimpleNamespace(write_line=lines.append, flush=lambda: None)}
    config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=plugins.get, get_plugins=tuple))
    shown = session.BenchSession(config, SimpleNamespace(budget_s=1.0, is_again=False), Selection())
    monkeypatch.setattr(shown._journal, "result", lambda case: run_with(FAST, CALL, BLIND))
    for _ in range(2):
        shown._case_board(CASE)
    assert [line for line in lines if "WARNING" in line] == [f"softbench: WARNING: the graph clock {WHY}; it is not used"]


def test_the_doctor_says_how_the_clocks_stand():
    part = known_durations.tell([RIGHT, CALL, BLIND])
    assert part.failures == ()
    assert part.lines == tuple(map(calibration.describe, (RIGHT, CALL, BLIND)))
    assert part.trust == (
        "clocks: graph, call are right within 0.15%, by the GPU's own timer",
        f"clocks: no device clock here: {BLIND.fault}",
    )
    assert known_durations.tell([FAST, CALL]).failures == (f"the graph clock {WHY}",)
    assert known_durations.tell([Calibration("call", fault="no triton")]).failures == ("the call clock was not checked: no triton",)
