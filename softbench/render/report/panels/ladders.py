"""The ladders of families: the gain of each step from one implementation to the next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softbench.analysis.leaderboard import Board, CaseBoard, Standing
from softbench.analysis.leaderboard.formatting import plural, short
from softbench.analysis.leaderboard.ranks import gains
from softbench.model import stats
from softbench.render.report.contents import Contents
from softbench.render.report.html import Markup, join, name, panel, row_head, table, tag

IDEA = 140
LEAD = (
    "Implementations of a family in the order in which its files declare them, the slowest file first. Every step is the geometric "
    "mean over the cases that both sides of it passed."
)


@dataclass(frozen=True)
class Gain:
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
                key=lambda s: (best[paths[s.implementation]], declared.get(s.implementation, len(declared)), s.score or 0),
            )
    return ladders


def _gain(cases: Sequence[CaseBoard], before: str, after: str) -> Gain | None:
    ratios = gains(cases, before, after)
    return Gain(stats.geometric_mean(ratios), len(ratios)) if ratios else None


def panel_of_ladders(contents: Contents) -> Markup:
    board = contents.board
    parts = []
    for operator in board.operators:
        for family, rungs in ladders(board, operator):
            title = [name(family)] if len(board.operators) == 1 else [name(family), ", ", tag("bdi", short(operator))]
            label = f"ladder of {short(family)}, {short(operator)}"
            parts.append(join([tag("h3", *title), _ladder(rungs, label)]))
    return panel("ladders", "Ladders", *parts, lead=LEAD)


def _ladder(rungs: Sequence[Rung], label: str) -> Markup:
    rows = [
        [
            row_head(name(rung.implementation)),
            tag("td", f"{rung.score:.1f}", class_="bar", style=f"--share:{rung.share:.3f}"),
            tag("td", _shown(rung.over_last) if place else ""),
            tag("td", _shown(rung.over_first) if place else ""),
            tag("td", tag("bdi", short(rung.idea, IDEA)), class_="text"),
        ]
        for place, rung in enumerate(rungs)
    ]
    header = ("rung", "score", "over the one before", "over the first", "idea")
    return table(header, rows, left=(0, 4), label=label, class_="ladder")


def _shown(gain: Gain | None) -> Markup:
    return join([f"{gain.factor:.2f}×", tag("small", plural(gain.cases, "case"))]) if gain else Markup("-")
