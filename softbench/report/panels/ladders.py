"""Families' ladders: what every step from one implementation to the next is worth."""

from __future__ import annotations

from collections.abc import Sequence

from softbench import stats
from softbench.leaderboard import Board, CaseBoard, Standing
from softbench.leaderboard.words import plural, short
from softbench.report.html import Markup, join, name, panel, row_head, table, tag
from softbench.report.index import Contents

LEAD = (
    "Implementations of a family in the order in which its files declare them, of several files the slowest first. Every step is "
    "the geometric mean over the cases that both sides of it passed."
)


def ladders(contents: Contents) -> Markup:
    board = contents.board
    parts = []
    for operator in board.operators:
        for family, rungs in _families(board, operator).items():
            title = [name(family)] if len(board.operators) == 1 else [name(family), ", ", tag("bdi", short(operator))]
            parts.append(join([tag("h3", *title), _ladder(board, operator, family, rungs)]))
    return panel("ladders", "Ladders", *parts, lead=LEAD)


def _families(board: Board, operator: str) -> dict[str, list[Standing]]:
    """Rungs of every family of which a file declares several of those timed here: others are collections, no ladders."""
    paths = {r.variant.implementation: r.variant.path for r in board.records if r.role == "entrant"}
    declared = {text: place for place, text in enumerate(board.passport.sources)}
    timed = [standing for standing in board.standings(operator) if standing.score is not None]
    found: dict[str, list[Standing]] = {}
    for family in sorted({standing.family for standing in timed}):
        rungs = [standing for standing in timed if standing.family == family]
        files = {
            path: [s for s in rungs if paths[s.implementation] == path]
            for path in {paths[s.implementation] for s in rungs}
        }
        if max(map(len, files.values())) > 1:
            best = {path: max(s.score or 0.0 for s in own) for path, own in files.items()}
            rungs.sort(
                key=lambda s: (
                    best[paths[s.implementation]],
                    declared.get(s.implementation, len(declared)),
                    s.score or 0.0,
                )
            )
            found[family] = rungs
    return found


def _ladder(board: Board, operator: str, family: str, rungs: Sequence[Standing]) -> Markup:
    cases = [case for case in board.timed if case.case.operator == operator]
    summaries = {r.variant.implementation: r.variant.summary for r in board.records if r.variant.summary}
    best = max(rung.score or 0.0 for rung in rungs)
    rows = []
    for before, rung in zip([None, *rungs], rungs, strict=False):
        who = rung.implementation
        rows.append(
            [
                row_head(name(who)),
                tag("td", f"{rung.score:.1f}", class_="bar", style=f"--share:{(rung.score or 0.0) / best:.3f}"),
                tag("td", "" if before is None else _gain(cases, before.implementation, who)),
                tag("td", "" if before is None else _gain(cases, rungs[0].implementation, who)),
                tag("td", tag("bdi", short(summaries.get(who, ""), 140)), class_="text"),
            ]
        )
    header = ["rung", "score", "over the one before", "over the first", "idea"]
    return table(header, rows, left=(0, 4), label=f"ladder of {short(family)}, {short(operator)}", class_="ladder")


def _gain(cases: Sequence[CaseBoard], before: str, after: str) -> Markup:
    pairs = [[case.cells[who].latency_ns if who in case.cells else None for who in (before, after)] for case in cases]
    ratios = [slow / fast for slow, fast in pairs if slow and fast]
    if not ratios:
        return Markup("-")
    gain = stats.geometric_mean(ratios)
    return join([f"{gain:.2f}x", tag("small", plural(len(ratios), "case"))])
