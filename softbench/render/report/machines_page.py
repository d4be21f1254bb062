"""Several machines on one page: % of roof on all of them, then per machine the ranking and the runs."""

from collections.abc import Sequence

from softbench.analysis.leaderboard.formatting import short, unfinished
from softbench.analysis.leaderboard.machines import ACROSS, Machine, shares
from softbench.analysis.leaderboard.remarks import clock_note
from softbench.model import Passport
from softbench.render.report.html import Markup, join, table, tag
from softbench.render.report.page import html_document
from softbench.render.tables import open_note, ranking_header, standing_row


def page(machines: Sequence[Machine]) -> str:
    """The whole document. The cases and cells of a machine are on the page of its own runs."""
    title = " and ".join(short(machine.title, 60) for machine in machines)
    head = tag("header", tag("h1", title), tag("p", ACROSS, class_="verdict"))
    return html_document(title, tag("main", join([head, *_shares(machines), *map(_machine, machines)], "\n")))


def _shares(machines: Sequence[Machine]) -> list[Markup]:
    header = ["[M, N]", "implementation", *(machine.title for machine in machines)]
    parts: list[Markup] = []
    for title, texts in shares(machines).items():
        rows = [[tag("td", text, class_="label" if i < 2 else None) for i, text in enumerate(row)] for row in texts]
        parts += [tag("h2", f"% of roof: {title}"), table(header, rows, left=(0, 1), label=f"% of roof: {title}")]
    return parts


def _machine(machine: Machine) -> Markup:
    board = machine.board
    parts = [tag("h2", machine.title)]
    parts += [tag("p", clock_note(board), class_="note")] if board.has_scores else []
    for operator in board.operators:
        rows = [[tag("td", text) for text in standing_row(standing, board)] for standing in board.standings(operator)]
        label = f"ranking of {operator} on {machine.title}"
        parts += [tag("h3", operator), table(ranking_header(board), rows, left=(1, 2), label=label)]
        parts += [tag("p", open_note(board, s), class_="note") for s in board.standings(operator) if s.open_cases]
    lines = [*map(_origin, machine.passports), *filter(None, [unfinished(board)]), *machine.notes]
    return join([*parts, tag("ul", *(tag("li", line) for line in lines), class_="plain")])


def _origin(passport: Passport) -> str:
    driver = passport.device.get("driver")
    versions = [f"{name} {version}" for name, version in sorted(passport.packages.items())]
    parts = [passport.run_id, passport.started, f"driver {driver}" if driver else "", *versions]
    return ", ".join(part for part in parts if part)
