"""Elements of several panels: figures, status words, groups of failures."""

from collections.abc import Sequence

from softbench.analysis.leaderboard.formatting import plural, short, who
from softbench.analysis.leaderboard.status_groups import StatusGroup
from softbench.model import Record
from softbench.render.report.contents import SIGNS, kind
from softbench.render.report.drawing import inline
from softbench.render.report.drawing.styles import Looks
from softbench.render.report.drawing.svg_elements import sign
from softbench.render.report.figure import Figure
from softbench.render.report.html import Markup, copyable, frame, join, tag

MANY_CASES = 3


def figure(made: Figure, looks: Looks, implementations: Sequence[str] = ()) -> Markup:
    """A figure: small multiples, or its first view and the others folded; the script offers them for choice."""
    numbers = {name: number for number, name in enumerate(implementations)}
    views = []
    for number, view in enumerate(made.views):
        drawing = inline(made, view, looks, numbers)
        shown = drawing if made.together else frame(drawing, f"{made.title}, {view.label}")
        is_open = "" if made.together or not number else None
        views.append(tag("details", tag("summary", tag("bdi", view.label)), shown, class_="view", open=is_open))
    return tag("figure", *views, data_figure=made.key, class_="together" if made.together else "single")


def filter_box(of: str, label: str) -> Markup:
    """The field of a filter, which a script applies, and beside it how many are left."""
    field = tag("label", f"{label} ", Markup(f'<input type="search" id="{of}-filter">'))
    return tag("p", field, tag("span", class_="count", role="status"), class_="needs-script")


def key(looks: Looks, name: str) -> Markup:
    return tag("i", tag("svg", sign(0, 0, looks.of(name)), viewBox="-6 -6 12 12", aria_hidden="true"), class_="key")


def status(record: Record, word: str) -> Markup:
    what = kind(record)
    return tag("span", f"{SIGNS[what]} {word}", class_=f"status {what}")


def outcome(group: StatusGroup) -> Markup:
    """All cells of one status and reason: implementations, reason, cases, and the command that repeats one."""
    first = group.records[0]
    word = status(first, f"{group.word} ×{len(group.records)}")
    head = [word, " ", tag("bdi", who(group.records)), ": ", tag("bdi", group.reason)]
    ids = list(dict.fromkeys(record.case.id for record in group.records))
    where = join((tag("code", case) for case in ids), ", ")
    if len(ids) > MANY_CASES:
        where = tag("details", tag("summary", plural(len(ids), "case")), where)
    shared = tag("p", tag("bdi", short(group.only, 160)), class_="note") if group.only else None
    again = "" if first.status.is_refusal else first.reproduce
    return tag("li", tag("p", *head), shared, tag("div", where, class_="where"), copyable(again))
