"""The ladders of families: the gain of each step from one implementation to the next."""

from collections.abc import Sequence

from softbench.analysis.leaderboard import Board, Standing
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


def _families(board: Board, operator: str) -> dict[str, list[Standing]]:
    """The rungs of each family with a file that declares several timed implementations: other families are no ladders.

    They are in rising order.
    """
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


def _gain(board: Board, before: Standing, after: Standing) -> Markup:
    """The factor of a step, and the number of its cases; "-" if no case has both sides."""
    cases = [case for case in board.timed if case.case.operator == after.operator]
    ratios = gains(cases, before.implementation, after.implementation)
    return join([f"{stats.geometric_mean(ratios):.2f}×", tag("small", plural(len(ratios), "case"))]) if ratios else Markup("-")


def panel_of_ladders(contents: Contents) -> Markup:
    board = contents.board
    parts = []
    for operator in board.operators:
        for family, rungs in _families(board, operator).items():
            title = [name(family)] if len(board.operators) == 1 else [name(family), ", ", tag("bdi", short(operator))]
            label = f"ladder of {short(family)}, {short(operator)}"
            parts.append(join([tag("h3", *title), _ladder(board, rungs, label)]))
    return panel("ladders", "Ladders", *parts, lead=LEAD)


def _ladder(board: Board, rungs: Sequence[Standing], label: str) -> Markup:
    ideas = {r.variant.implementation: r.variant.summary for r in board.records if r.variant.summary}
    best = max(rung.score or 0.0 for rung in rungs)
    rows = []
    for place, rung in enumerate(rungs):
        score = rung.score or 0.0
        row = [
            row_head(name(rung.implementation)),
            tag("td", f"{score:.1f}", class_="bar", style=f"--share:{score / best:.3f}"),
            tag("td", _gain(board, rungs[place - 1], rung) if place else ""),
            tag("td", _gain(board, rungs[0], rung) if place else ""),
            tag("td", tag("bdi", short(ideas.get(rung.implementation, ""), IDEA)), class_="text"),
        ]
        rows.append(row)
    header = ("rung", "score", "over the one before", "over the first", "idea")
    return table(header, rows, left=(0, 4), label=label, class_="ladder")
