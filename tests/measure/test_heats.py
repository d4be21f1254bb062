"""Heats of a contest in which somebody runs out of memory."""

from __future__ import annotations

import random
from types import SimpleNamespace

from support import builders as make
from support.simulated import PLAN, World, at

from softbench.measure.contest.admission import parts
from softbench.measure.contest.contest import Contest, Rules, _recorded
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.stage_times import StageTimes
from softbench.measure.contest.workers import Answer
from softbench.model import Status

FULL = Answer(False, status=Status.OUT_OF_MEMORY, reason="capture raised OutOfMemoryError")


def contest(world: World, *entrants: Entrant, free_bytes: int | None = 0) -> None:
    pool = SimpleNamespace(everyone=lambda *_: None, free_bytes=lambda _: free_bytes)
    made = Contest(Rules(budget_s=1e9), pool, object())  # type: ignore[arg-type]
    made._heats(make.softmax_case(), list(entrants), PLAN, world.ask, random.Random(1), StageTimes())  # type: ignore[arg-type]


def test_nobody_is_admitted_where_no_worker_lives(world: World) -> None:
    """No free memory that anybody knows is no memory without a limit."""
    a = world.enter("a")
    contest(world, a, free_bytes=None)
    assert not world.log
    assert not a.samples


def heats(entrant: Entrant) -> list[int]:
    return [samples.heat for samples in entrant.samples]


def test_a_heat_without_its_roof_is_measured_again_in_halves(world: World) -> None:
    roof = world.enter("copy", 0.9e6, role="roof", fault=at("place", 2, FULL))
    a, b, c = (world.enter(name) for name in "abc")
    contest(world, roof, a, b, c)
    assert [heats(e) for e in (roof, a, b, c)] == [[1, 2], [1], [1], [2]]
    assert all(e.is_open and len(e.samples[0].ns) >= 8 for e in (roof, a, b, c))
    assert any("measured again" in note for note in a.notes)
    assert a.notes[-1].startswith("heat 1: ")
    assert a.notes[-1].endswith(" placements")


def test_an_entrant_that_runs_out_of_memory_is_tried_with_the_roof_alone(world: World) -> None:
    roof, a = world.enter("copy", 0.9e6, role="roof"), world.enter("a")
    big = world.enter("b", fault=at("place", 1, FULL))
    contest(world, roof, a, big)
    assert [heats(e) for e in (roof, a, big)] == [[0, 1], [0], [1]]


def test_a_roof_that_never_fits_ends_the_halving(world: World) -> None:
    never = world.enter("copy", 0.9e6, role="roof", fault=lambda op, *_: FULL if op == "place" else None)
    entrants = [world.enter(name) for name in "abc"]
    contest(world, never, *entrants)
    assert never.status is Status.OUT_OF_MEMORY
    assert all(len(e.samples) == 1 for e in entrants)


def test_parts_are_even() -> None:
    assert parts(["roof"], ["a", "b", "c"], 2) == [["roof", "a", "b"], ["roof", "c"]]


def test_where_every_kernel_of_the_roof_fails_one_says_why(world: World) -> None:
    a, *roofs = (world.enter(name, role=role) for name, role in (("a", "entrant"), ("copy", "roof"), ("copy", "roof")))
    for roof in roofs:
        roof.settle(Status.OUT_OF_MEMORY, "place: out of memory")
        roof.is_best = False
    assert _recorded([a, *roofs]) == [a, roofs[0]]
    roofs[1].is_best = True
    assert _recorded([a, *roofs]) == [a, roofs[1]]
