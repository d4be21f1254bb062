"""The clocks side by side: the cost of a call, and ranks that another clock would change."""

import statistics
from collections.abc import Sequence

from softbench.analysis.leaderboard import Board
from softbench.analysis.leaderboard.formatting import microseconds, milliseconds, plural, short
from softbench.analysis.leaderboard.inversions import Inversion, inversions
from softbench.render.report.contents import Contents
from softbench.render.report.html import EMPTY, Markup, join, name, panel, row_head, table, tag
from softbench.render.report.panels.blocks import figure

LEAD = (
    "The ranking clock leaves the host out. A stream of calls from Python goes at the pace of the slower of host and kernel: "
    "above the diagonal the host decides."
)


def clocks(contents: Contents) -> Markup:
    made = contents.figures.get("clocks")
    if made is None:
        return EMPTY
    pairs = inversions(contents.board)
    drawn = figure(made, contents.cells.looks, contents.cells.implementations)
    return panel("clocks", made.title, _summary(contents.board, pairs), drawn, _list(contents.board, pairs), lead=LEAD)


def _summary(board: Board, found: Sequence[Inversion]) -> Markup:
    """By implementation: medians over the cases of all, how often the host is slower, how often another clock changes a rank.

    Who has less than half of the cases has no medians, and does not narrow those of the others.
    """
    ranking = board.passport.ranking_clock
    calls: dict[str, dict[str, tuple[float, float]]] = {}
    for case in board.timed if ranking != "call" else ():
        for who, cell in case.cells.items():
            if cell.latency_ns and cell.call_ns is not None:
                calls.setdefault(who, {})[case.case.id] = cell.latency_ns, cell.call_ns
    most = max(map(len, calls.values()), default=0)
    common = set.intersection(*(set(own) for own in calls.values() if 2 * len(own) >= most)) if calls else set()
    header = [
        "implementation",
        f"{ranking}, median µs of {plural(len(common), 'case')}",
        "call µs, the same",
        "host slower than kernel",
        "overtaken by other clocks",
    ]
    rows = []
    for who in dict.fromkeys(standing.implementation for standing in board.ranking if standing.implementation in calls):
        own = calls[who]
        times = zip(*(own[key] for key in common), strict=True) if common and common <= own.keys() else ()
        medians = [microseconds(statistics.median(column)) for column in times] or ["-", "-"]
        bound = f"{sum(call > kernel for kernel, call in own.values())} of {plural(len(own), 'case')}"
        overtaken = plural(sum(inversion.first == who for inversion in found), "time")
        rows.append([row_head(name(who)), *(tag("td", text) for text in (*medians, bound, overtaken))])
    return table(header, rows, label="clocks by implementation") if rows else EMPTY


def _list(board: Board, found: Sequence[Inversion]) -> Markup:
    if not found:
        return tag("p", "No other clock changes a rank.", class_="note")
    ranking = board.passport.ranking_clock
    rows = [
        [
            row_head(tag("bdi", short(entry.case.case.id, 60))),
            tag("td", entry.clock, class_="label"),
            tag("td", _order(entry.first, entry.second, entry.ranked_ns), class_="label"),
            tag("td", "⇅ ", _order(entry.second, entry.first, entry.other_ns[::-1]), class_="label"),
        ]
        for entry in found
    ]
    header = ["case", "clock", f"by {ranking}, ms", "⇅ by the other clock, ms"]
    head = tag("summary", f"⇅ Ranks that another clock reverses: {plural(len(found), 'pair')}")
    note = "The call clock counts the slower of host time and kernel."
    body = table(header, rows, left=(0, 1, 2, 3), label="rank inversions")
    return tag("details", head, tag("p", note, class_="note"), body, class_="small")


def _order(first: str, second: str, times: tuple[float, float]) -> Markup:
    one, two = (f" {milliseconds(ns)}" for ns in times)
    return join([name(first), one, " before ", name(second), two])
