"""The page's panels, each from the board alone; an empty one is the empty string."""

from __future__ import annotations

import json

from softbench.leaderboard import Board, CaseBoard, Cell, is_declared
from softbench.leaderboard.words import (
    LEGEND,
    cell_figures,
    cell_text,
    first_line,
    interval_text,
    names,
    outcome_counts,
    plural,
    section_title,
    sections,
    shape_text,
    short,
    status_groups,
    status_text,
    who,
)
from softbench.model import Record
from softbench.report.html import Markup, esc, join, table, tag
from softbench.tables import ranking_header, standing_row

REASON_LIMIT = 70
EMPTY = Markup("")


def ranking(board: Board) -> Markup:
    """The overall ranking, one table an operator."""
    if not board.has_scores:
        return EMPTY
    parts: list[Markup] = []
    for operator in board.operators:
        standings = board.standings(operator)
        rows = []
        for standing in standings:
            rank, _, *rest = standing_row(standing)
            name = tag("td", short(standing.implementation), title=standing.implementation, class_="label")
            family, *figures = rest
            cells = (tag("td", text) for text in figures)
            rows.append([tag("td", rank), name, tag("td", family, class_="label"), *cells])
        parts += [tag("h3", operator)] if len(board.operators) > 1 else []
        parts.append(table(ranking_header(board), rows, left=(1, 2)))
        for standing in standings:
            if standing.failed_hard:
                failed = plural(len(standing.failed_hard), "hard case")
                ids = ", ".join(standing.failed_hard)
                parts.append(tag("p", f"† {short(standing.implementation)} fails {failed}: {ids}", class_="note"))
    note = "Coverage: passed of timed cases. Wins and ties: cases where nobody is faster."
    return join([tag("h2", "Ranking"), *parts, tag("p", note, class_="note")])


def summary(board: Board) -> Markup:
    """Latency and bandwidth of every timed case, tinted by % of roof."""
    parts: list[Markup] = []
    for section, cases in sections(board).items():
        shown = names(board, section[0], cases)
        has_roof = any(case.roof for case in cases)
        rows = [_summary_row(case, shown, has_roof) for case in cases]
        header = ["[M, N]", *(tag("span", short(name), title=name) for name in shown), *(["roof"] if has_roof else [])]
        parts += [tag("h3", section_title(section)), table(header, rows, class_="first")]
    if not parts:
        return EMPTY
    legend = "Latency (ms) / bandwidth (GB/s); the deeper the tint, the nearer the roof. " + " · ".join(
        LEGEND.split("   ")
    )
    return join([tag("h2", "Timed cases"), tag("p", legend, class_="note"), *parts])


def _summary_row(case: CaseBoard, shown: list[str], has_roof: bool) -> list[Markup]:
    row = [tag("td", shape_text(case.case), class_="label", title=case.case.id)]
    row += [
        _summary_cell(case.cells[name]) if name in case.cells else tag("td", "not run", class_="status word")
        for name in shown
    ]
    if has_roof:
        title = case.roof.record.variant.id if case.roof else None
        row.append(tag("td", cell_text(case.roof) if case.roof else "", class_="time", title=title))
    return row


def _summary_cell(cell: Cell) -> Markup:
    if cell.latency_ns is None:
        reason = short(first_line(cell.record.reason), REASON_LIMIT)
        word = tag("span", cell_text(cell), class_="word")
        kind = "status failed" if cell.status.is_failure else "status"
        return tag("td", word, tag("span", reason, class_="reason"), class_=kind, title=cell.record.reason or None)
    share = cell.percent_of_roof
    heat = 0.0 if share is None else min(max((share - 50) / 50, 0.0), 1.0) ** 2
    title = ", ".join(filter(None, [interval_text(cell), "" if share is None else f"{share:.1f} % of roof"]))
    kind = "time won" if cell.is_winner else "time"
    return tag("td", cell_text(cell), class_=kind, style=f"--heat:{heat:.2f}", title=title)


def correctness(board: Board) -> Markup:
    """Implementation by outcome, all cases; then failures and refusals by reason."""
    if not board.cases:
        return EMPTY
    header = ["implementation", "operator", "passed", "checked", "compiled", "failed", "declared", "refused"]
    rows = []
    for standing in board.ranking:
        counts = outcome_counts(board, standing)
        name = tag("td", short(standing.implementation), title=standing.implementation, class_="label")
        cells = [
            tag("td", count, class_="failed" if index == 3 and count else None) for index, count in enumerate(counts)
        ]
        rows.append([name, tag("td", standing.operator, class_="label"), *cells])
    parts = [tag("h2", "Correctness"), table(header, rows, left=(0, 1))]
    groups = status_groups(board)
    if groups:
        parts += [tag("h3", "Failures and refusals"), tag("ul", *(_group(*group) for group in groups), class_="plain")]
    return join(parts)


def _group(word: str, reason: str, records: list[Record]) -> Markup:
    kind = "word" if records[0].status.is_refusal else "word failed"
    head = [tag("span", f"{word} ×{len(records)}", class_=kind), f" {who(records)}: {reason}"]
    again = records[0].reproduce
    return tag("li", *head, *([Markup("<br>"), tag("code", again)] if again else []))


def cells(board: Board) -> Markup:
    """Every cell of the run with all that is known of it, folded."""
    header = "case implementation status rank ms interval GB/s %_of_roof call_µs device_µs traffic registers stack_B shared_B"
    columns = [*(word.replace("_", " ") for word in header.split()), "reason and notes", "repeat"]
    rows = [row for case in board.cases for row in _case_rows(case)]
    if not rows:
        return EMPTY
    search = Markup('<input type="search" data-rows="cells" placeholder="filter: words in any column">')
    head = tag("summary", f"Every cell ({len(rows)})")
    return tag(
        "details", head, search, table(columns, rows, left=(0, 1, 2, len(columns) - 2, len(columns) - 1), id="cells")
    )


def _case_rows(case: CaseBoard) -> list[list[Markup]]:
    found = [(cell, "") for cell in case.cells.values()]
    found += [(Cell(record), " (not chosen)") for record in case.others]
    found += [(cell, " (reference)") for cell in case.references.values()]
    found += [(case.roof, " (roof)")] if case.roof else []
    return [_cell_row(cell, role) for cell, role in found]


def _cell_row(cell: Cell, role: str) -> list[Markup]:
    record = cell.record
    label = short(record.variant.id, 40) + (f" best of {record.best_of}" if record.best_of > 1 else "") + role
    failed = record.status.is_failure and not is_declared(record)
    kind = "word failed" if failed else "word right" if record.status.is_success else "word"
    notes = join((note for note in (record.reason, record.known_failure, *record.notes) if note), "<br>")
    return [
        tag("td", short(record.case.id, 60), class_="label", title=record.case.id),
        tag("td", label + ("†" if cell.dagger else ""), class_="text", title=record.variant.id),
        tag("td", tag("span", status_text(record), class_=kind), class_="label"),
        *(tag("td", text) for text in cell_figures(cell)),
        tag("td", notes, class_="text"),
        tag("td", tag("code", record.reproduce) if record.reproduce else "", class_="text"),
    ]


def passport(board: Board) -> Markup:
    """Where and with what the run was made, folded."""
    fields = {key: value for key, value in vars(board.passport).items() if value not in ("", {}, ())}
    rows = [[tag("td", key, class_="label"), tag("td", _value(value), class_="text")] for key, value in fields.items()]
    return tag("details", tag("summary", "Passport"), table(["", ""], rows))


def _value(value: object) -> Markup:
    if isinstance(value, dict):
        return join((f"{key}: {_plain(value[key])}" for key in sorted(value)), "<br>")
    return esc(_plain(value))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
