"""Which times count: sealed ones, and open ones only where nothing is sealed.

docs/measuring.md says what they are. Elsewhere (on a CPU, in a run from before there were tiers) all times count.
"""

from collections.abc import Iterable, Mapping

from softbench.analysis.leaderboard.board import Board, CaseBoard
from softbench.model import OPEN, SEALED, Record, tiers


def outranked(entrants: Mapping[str, Record], clock: str) -> set[str]:
    """The entrants of a case whose times do not count, because another one's is sealed."""
    timed = {name: record.tier for name, record in entrants.items() if record.clock(clock)}
    behind = tiers.outranked(timed.values())
    return {name for name, tier in timed.items() if tier in behind}


def scored(cases: Iterable[CaseBoard]) -> list[CaseBoard]:
    """Of the cases of one operator, those that its scores are over."""
    timed = [case for case in cases if case.case.timed]
    return [case for case in timed if case.is_sealed] or timed


def scored_of(board: Board, operator: str) -> list[CaseBoard]:
    """The same of a board."""
    return scored(case for case in board.timed if case.case.operator == operator)


def apart(a: Record, b: Record) -> str:
    """Why two times cannot be compared, or ""."""
    return "one time is sealed, the other open" if {a.tier, b.tier} == {SEALED, OPEN} else ""


def is_lost(old: Record, new: Record) -> bool:
    """Whether a time was sealed and is open now."""
    return (old.tier, new.tier) == (SEALED, OPEN)
