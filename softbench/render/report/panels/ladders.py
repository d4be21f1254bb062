"""The ladders of families: the gain of each step from one implementation to the next."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.analysis.leaderboard.formatting import plural, short
from softbench.render.report.contents import Contents
from softbench.render.report.grids.ladders import HEADS, IDEA, Gain, Rung, gain_text
from softbench.render.report.grids.ladders import ladders as found_in
from softbench.render.report.html import Markup, join, name, panel, row_head, table, tag

LEAD = (
    "Implementations of a family in the order in which its files declare them, the slowest file first. Every step is the geometric "
    "mean over the cases that both sides of it passed."
)


def ladders(contents: Contents) -> Markup:
    board = contents.board
    parts = []
    for operator in board.operators:
        for family, rungs in found_in(board, operator):
            title = [name(family)] if len(board.operators) == 1 else [name(family), ", ", tag("bdi", short(operator))]
            label = f"ladder of {short(family)}, {short(operator)}"
            parts.append(join([tag("h3", *title), _ladder(rungs, label)]))
    return panel("ladders", "Ladders", *parts, lead=LEAD)


def _ladder(rungs: Sequence[Rung], label: str) -> Markup:
    rows = [
        [
            row_head(name(rung.implementation)),
            tag("td", f"{rung.score:.1f}", class_="bar", style=f"--share:{rung.share:.3f}"),
            tag("td", _gain(rung.over_last) if place else ""),
            tag("td", _gain(rung.over_first) if place else ""),
            tag("td", tag("bdi", short(rung.idea, IDEA)), class_="text"),
        ]
        for place, rung in enumerate(rungs)
    ]
    return table(("rung", *HEADS), rows, left=(0, 4), label=label, class_="ladder")


def _gain(gain: Gain | None) -> Markup:
    return join([gain_text(gain), tag("small", plural(gain.cases, "case"))]) if gain else Markup("-")
