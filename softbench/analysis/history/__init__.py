"""Runs over time: the score of each implementation, chosen cells, and the steps at which something changed. Pure.

A cell is compared with the run of its last step, not with the previous run, so that a slow loss is found as soon as it shows.
A score follows from all timed cases of a run, so scores over different cases are not joined, nor values of an operator with
another file, or with a cold and a warm L2 cache.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from softbench.analysis import compare, leaderboard
from softbench.analysis.compare import Move, Pair, common
from softbench.analysis.compare.surroundings import Change, changes
from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.tiers import scored_of
from softbench.model import Case, Passport, Run
from softbench.records import comparable

STEP = 0.01
"""The least change of a cell that is a step; among hundreds of cells smaller ones occur by chance."""
T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R", bound=Any)


@dataclass(frozen=True)
class Point:
    """The value of one run in % of roof; run counts from 0. Points are comparable if their questions are equal."""

    run: int
    value: float
    question: int = 0


@dataclass(frozen=True)
class Line:
    """An implementation over the runs: its score in an operator, or its cell in a case."""

    of: str
    implementation: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Step:
    """What changed of one implementation at a run, since the last run with the same results."""

    operator: str
    implementation: str
    at: int
    since: int
    cells: tuple[Move, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class History:
    """The runs of one machine and clock by time; timed is the number of timed cases of each."""

    title: str
    runs: tuple[Passport, ...]
    timed: tuple[int, ...]
    scores: tuple[Line, ...]
    cells: tuple[Line, ...]
    steps: tuple[Step, ...]


def trace(runs: Sequence[Run], cells: str = "") -> tuple[History, ...]:
    """One history per machine and clock; cells are comma-separated patterns of "CASE::NAME" ids.

    A run that only checked takes part: a wrong output that it found is a step, and it has no score.
    """
    return tuple(_history(group, [text for text in cells.split(",") if text]) for group in by_machine(runs).values())


def by_machine(runs: Iterable[R]) -> dict[tuple[str, ...], list[R]]:
    """The runs of each clock and hardware by time; a run is anything with a passport."""
    groups: dict[tuple[str, ...], list[R]] = {}
    for run in sorted(runs, key=lambda run: (run.passport.started, run.passport.run_id)):
        groups.setdefault(comparable.machine(run.passport), []).append(run)
    return groups


def titled(passport: Passport) -> str:
    return f"{passport.device.get('name', 'unknown machine')}, {passport.ranking_clock} clock"


def _history(runs: Sequence[Run], patterns: Sequence[str]) -> History:
    boards = [leaderboard.build(run) for run in runs]
    return History(
        titled(runs[-1].passport),
        tuple(run.passport for run in runs),
        tuple(len(board.timed) for board in boards),
        tuple(_scores(boards)),
        tuple(_cells(boards, patterns)),
        tuple(_steps(runs, boards)),
    )


def _scores(boards: Sequence[Board]) -> Iterator[Line]:
    points: dict[tuple[str, str], list[Point]] = {}
    questions: dict[frozenset[tuple[object, ...]], int] = {}
    for number, board in enumerate(boards):
        for standing in board.ranking:
            scored = scored_of(board, standing.operator)
            asked = frozenset((case.case.id, *_question(*case.participants)) for case in scored)
            question = questions.setdefault(asked, len(questions))
            if standing.score is not None:
                point = Point(number, standing.score, question)
                points.setdefault((standing.operator, standing.implementation), []).append(point)
    yield from (Line(operator, name, tuple(own)) for (operator, name), own in sorted(points.items()))


def _cells(boards: Sequence[Board], patterns: Sequence[str]) -> Iterator[Line]:
    points: dict[tuple[str, str], list[Point]] = {}
    questions: dict[tuple[object, ...], int] = {}
    for number, board in enumerate(boards):
        for case in board.timed:
            for name, cell in case.by_implementation.items():
                chosen = any(fnmatchcase(f"{case.case.id}::{name}", pattern) for pattern in patterns)
                if chosen and cell.percent_of_roof is not None and not cell.is_open:
                    question = questions.setdefault(_question(cell), len(questions))
                    points.setdefault((case.case.id, name), []).append(Point(number, cell.percent_of_roof, question))
    yield from (Line(case, name, tuple(own)) for (case, name), own in points.items())


def _question(*cells: Cell) -> tuple[object, ...]:
    """What the name of their case does not say: its operator's file, and the L2 cache."""
    return cells[0].record.operator_hash, any(cell.is_warm for cell in cells)


def _steps(runs: Sequence[Run], boards: Sequence[Board]) -> Iterator[Step]:
    """By time, then by operator and implementation."""
    cases = ((at, case) for at, board in enumerate(boards) for case in board.cases)
    seen = ((at, case.case, name, case) for at, case in cases for name in case.by_implementation)
    for at, since, operator, name, own in anchored(seen, _changed, _apart):
        yield Step(operator, name, at, since, own, tuple(changes(runs[since], runs[at], common(own))))


def anchored(
    seen: Iterable[tuple[int, Case, str, T]], changed: Callable[[str, T, T], P | None], apart: Callable[[str, T, T], Any]
) -> Iterator[tuple[int, int, str, str, tuple[P, ...]]]:
    """What was seen of implementations by time, each against that of its last step: at, since, operator, name, what changed."""
    anchors: dict[tuple[str, str], tuple[int, T]] = {}
    found: dict[tuple[int, str, str], list[tuple[int, P]]] = {}
    for at, case, name, value in seen:
        key = case.id, name
        if key in anchors:
            since, before = anchors[key]
            pair = changed(name, before, value)
            if pair is not None:
                found.setdefault((at, case.operator, name), []).append((since, pair))
            elif not apart(name, before, value):
                anchors[key] = at, before
                continue
        anchors[key] = at, value
    for (at, operator, name), pairs in sorted(found.items()):
        yield at, max(since for since, _ in pairs), operator, name, tuple(pair for _, pair in pairs)


def _apart(name: str, before: CaseBoard, after: CaseBoard) -> str:
    return compare.why_apart(before.by_implementation[name], after.by_implementation[name])


def _changed(name: str, before: CaseBoard, after: CaseBoard) -> Pair | None:
    """The cell in both runs, if it changed by a step."""
    if _apart(name, before, after):
        return None
    pair = compare.pair(name, before, after)
    is_step = pair.change is not None and pair.is_changed and abs(pair.change.ratio - 1) >= STEP
    return pair if is_step or pair.moved else None
