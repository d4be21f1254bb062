"""Elements of several panels: figures, status words, groups of failures."""

from __future__ import annotations

from softbench.analysis.leaderboard.formatting import plural, who
from softbench.model import Record
from softbench.render.report.data import SIGNS, kind
from softbench.render.report.figure import Figure
from softbench.render.report.html import Markup, copyable, join, tag

MANY_CASES = 3


def figure(made: Figure) -> Markup:
    """The place where the script draws a figure, with its description; hidden without a script."""
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
    """All cells of one status and reason: implementations, reason, cases, and the command that repeats it."""
    head = [status(records[0], f"{word} ×{len(records)}"), " ", tag("bdi", who(records)), ": ", tag("bdi", reason)]
    ids = list(dict.fromkeys(record.case.id for record in records))
    where = join((tag("code", case) for case in ids), ", ")
    if len(ids) > MANY_CASES:
        where = tag("details", tag("summary", plural(len(ids), "case")), where)
    again = "" if records[0].status.is_refusal else records[0].reproduce
    return tag("li", tag("p", *head), tag("div", where, class_="where"), copyable(again))
