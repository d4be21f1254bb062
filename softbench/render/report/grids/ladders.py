"""The ladders of families: the gain of each step from one implementation to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softbench.analysis.leaderboard import Board, CaseBoard, Standing
from softbench.analysis.leaderboard.formatting import short
from softbench.analysis.leaderboard.ranks import gains
from softbench.model import stats
from softbench.render.report.grid import Block, Column, Grid, GridView, Row, Tile

HEADS = ("score", "over the one before", "over the first", "idea")
IDEA = 140
NOTE = "Score: % of roof. Steps: geometric mean over the cases that both sides passed, their number in brackets."


@dataclass(frozen=True)
class Gain:
    """A geometric mean and its number of cases."""

    factor: float
    cases: int


@dataclass(frozen=True)
class Rung:
    """share is its score over the best of its family; a gain is None for the first rung, or if no case has both sides."""

    implementation: str
    score: float
    share: float
    over_last: Gain | None
    over_first: Gain | None
    idea: str


def grid(board: Board) -> Grid:
    """One view per operator."""
    heads = (Column(HEADS[0]), *(Column(text) for text in HEADS[1:3]), Column(HEADS[3], words=True))
    views = []
    for operator in board.operators:
        blocks = [
            Block(f"{family}, {operator}", "rung", heads, tuple(map(_row, rungs)))
            for family, rungs in ladders(board, operator)
        ]
        views += [GridView(operator, tuple(blocks), (NOTE,))] * bool(blocks)
    alt = "Implementations of a family in rising order: score in % of roof, and the gain of each step."
    return Grid("ladders", "Ladders", alt, tuple(views))


def _row(rung: Rung) -> Row:
    score = Tile(f"{rung.score:.1f}", share=rung.share)
    gains = (Tile(f"{gain_text(gain)} ({gain.cases})" if gain else "") for gain in (rung.over_last, rung.over_first))
    return Row(rung.implementation, (score, *gains, Tile(short(rung.idea, IDEA))), of=rung.implementation)


def gain_text(gain: Gain | None) -> str:
    return f"{gain.factor:.2f}x" if gain else ""


def ladders(board: Board, operator: str) -> Iterator[tuple[str, list[Rung]]]:
    """The rungs of every family with a ladder, in rising order."""
    cases = [case for case in board.timed if case.case.operator == operator]
    ideas = {r.variant.implementation: r.variant.summary for r in board.records if r.variant.summary}
    for family, standings in _families(board, operator).items():
        names = [standing.implementation for standing in standings]
        best = max(standing.score or 0.0 for standing in standings)
        rungs = []
        for place, (who, standing) in enumerate(zip(names, standings, strict=True)):
            last, first = (_gain(cases, before, who) if place else None for before in (names[place - 1], names[0]))
            score = standing.score or 0.0
            rungs.append(Rung(who, score, score / best, last, first, ideas.get(who, "")))
        yield family, rungs


def _families(board: Board, operator: str) -> dict[str, list[Standing]]:
    """The rungs of each family with a file that declares several timed implementations: other families are no ladders."""
    paths = {r.variant.implementation: r.variant.path for r in board.records if r.role == "entrant"}
    declared = {text: place for place, text in enumerate(board.passport.sources)}
    families: dict[str, dict[str, list[Standing]]] = {}
    for standing in sorted(board.standings(operator), key=lambda standing: standing.family):
        if standing.score is not None:
            files = families.setdefault(standing.family, {})
            files.setdefault(paths[standing.implementation], []).append(standing)
    ladders = {}
    for family, files in families.items():
        if max(map(len, files.values())) > 1:
            best = {path: max(s.score or 0.0 for s in own) for path, own in files.items()}
            ladders[family] = sorted(
                (s for own in files.values() for s in own),
                key=lambda s: (
                    best[paths[s.implementation]],
                    declared.get(s.implementation, len(declared)),
                    s.score or 0,
                ),
            )
    return ladders


def _gain(cases: Sequence[CaseBoard], before: str, after: str) -> Gain | None:
    ratios = gains(cases, before, after)
    return Gain(stats.geometric_mean(ratios), len(ratios)) if ratios else None
