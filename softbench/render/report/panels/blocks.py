"""Pieces that several panels are built of: figures, status words, groups of failures."""

from __future__ import annotations

from softbench.analysis.leaderboard.formatting import plural, who
from softbench.model import Record
from softbench.render.report.data import SIGNS, kind
from softbench.render.report.figure import Figure
from softbench.render.report.html import EMPTY, Markup, copyable, join, tag

MANY_CASES = 3


def figure(made: Figure | None) -> Markup:
    """The place of a figure, which the script fills, with what it shows in words; without a script there is none."""
    if made is None:
        return EMPTY
    return tag(
        "figure",
        tag("div", class_="chart", role="img", aria_label=f"{made.title}. {made.alt} A table of it follows."),
        class_="needs-script",
        data_figure=made.key,
    )


def status(record: Record, word: str) -> Markup:
    """A status word with its sign."""
    what = kind(record)
    return tag("span", f"{SIGNS[what]} {word}", class_=f"status {what}")


def outcome(word: str, reason: str, records: list[Record]) -> Markup:
    """All cells of one status and reason: who, why, where, and how to see it again."""
    head = [status(records[0], f"{word} ×{len(records)}"), " ", tag("bdi", who(records)), ": ", tag("bdi", reason)]
    ids = list(dict.fromkeys(record.case.id for record in records))
    where = join((tag("code", case) for case in ids), ", ")
    if len(ids) > MANY_CASES:
        where = tag("details", tag("summary", plural(len(ids), "case")), where)
    again = "" if records[0].status.is_refusal else records[0].reproduce
    return tag("li", tag("p", *head), tag("div", where, class_="where"), copyable(again))
