"""The overall ranking of an operator's implementations. What counts and why: `softbench.leaderboard`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from softbench import stats
from softbench.leaderboard.board import CaseBoard, Cell, Standing
from softbench.leaderboard.ranks import latency_ns

NOT_PASSED = 0.5
"""Share that a case counts where the entrant did not pass: of the slowest pass there, or of its own slowest anywhere."""

FailedHard = Mapping[tuple[str, str], tuple[str, ...]]
"""(operator, implementation) -> ids of untimed cases that it failed, and of timed ones where only its timed calls were wrong."""


def ranking(cases: Sequence[CaseBoard], failed_hard: FailedHard) -> tuple[Standing, ...]:
    """Operator by operator: the ranked by score, then those with a dagger, then those without a score."""
    standings: list[Standing] = []
    for operator in dict.fromkeys(board.case.operator for board in cases):
        own = [board for board in cases if board.case.operator == operator]
        names = dict.fromkeys(name for board in own for name in board.cells)
        rows = [_standing(operator, name, own, failed_hard.get((operator, name), ())) for name in names]
        rows.sort(key=lambda row: (row.score is None, bool(row.failed_hard), -(row.score or 0.0), row.implementation))
        standings += _numbered(rows)
    return tuple(standings)


def _numbered(rows: Sequence[Standing]) -> list[Standing]:
    scores = [row.score for row in rows if row.score is not None and not row.failed_hard]
    return [
        replace(row, rank=None if row.score is None or row.failed_hard else 1 + scores.index(row.score)) for row in rows
    ]


def _standing(operator: str, name: str, cases: Sequence[CaseBoard], failed_hard: tuple[str, ...]) -> Standing:
    timed = [board for board in cases if board.case.timed]
    passed = [board.cells[name] for board in timed if name in board.cells and board.cells[name].samples]
    speedups = [cell.speedup for cell in passed if cell.speedup is not None]
    return Standing(
        operator=operator,
        implementation=name,
        family=next(board.cells[name].record.variant.family for board in cases if name in board.cells),
        rank=None,
        score=score(name, timed) if passed else None,
        passed=len(passed),
        timed=len(timed),
        speedup=stats.geometric_mean(speedups) if speedups else None,
        speedup_cases=len(speedups),
        wins=sum(cell.is_winner for cell in passed),
        ties=sum(cell.rank == 1 and cell.mark == "=" for cell in passed),
        failed_hard=failed_hard,
    )


def score(name: str, timed: Sequence[CaseBoard]) -> float:
    """Score of one implementation over the timed cases, in % of roof; nan where it passed none."""
    passed: list[float] = []
    slowest_elsewhere: list[float] = []
    for board in timed:
        passes = {who: cell for who, cell in {**board.references, **board.cells}.items() if cell.samples}
        shares = _shares(passes, list(passes))
        if name in shares:
            passed.append(shares[name])
        else:
            slowest_elsewhere.append(min(shares.values(), default=math.inf))
    if not passed:
        return math.nan
    return stats.geometric_mean(passed + [NOT_PASSED * min([slowest, *passed]) for slowest in slowest_elsewhere])


def _shares(passes: Mapping[str, Cell], names: Sequence[str]) -> dict[str, float]:
    """% of roof of the named passes; without a roof, % of the fastest among them."""
    known = {name: share for name in names if (share := passes[name].percent_of_roof) is not None}
    if len(known) == len(names):
        return known
    latencies = {name: latency_ns(passes[name].samples) for name in names}
    return {name: 100 * min(latencies.values()) / latency for name, latency in latencies.items()}
