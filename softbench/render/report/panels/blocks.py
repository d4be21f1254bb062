"""Elements of several panels: figures, status words, groups of failures."""

from __future__ import annotations

from softbench.analysis.leaderboard.formatting import StatusGroup, plural, short, who
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


def outcome(group: StatusGroup) -> Markup:
    """All cells of one status and reason: implementations, reason, cases, and the command that repeats one."""
    first = group.records[0]
    head = [
        status(first, f"{group.word} ×{len(group.records)}"),
        " ",
        tag("bdi", who(group.records)),
        ": ",
        tag("bdi", group.reason),
    ]
    ids = list(dict.fromkeys(record.case.id for record in group.records))
    where = join((tag("code", case) for case in ids), ", ")
    if len(ids) > MANY_CASES:
        where = tag("details", tag("summary", plural(len(ids), "case")), where)
    shared = tag("p", tag("bdi", short(group.only, 160)), class_="note") if group.only else Markup("")
    again = "" if first.status.is_refusal else first.reproduce
    return tag("li", tag("p", *head), shared, tag("div", where, class_="where"), copyable(again))
