"""Plain-text tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from softbench.analysis.document import Document, Heading, Lines, Table
from softbench.analysis.leaderboard import Board, CaseBoard, Cell, Standing
from softbench.analysis.leaderboard.formatting import (
    cell_figures,
    cell_text,
    clock_note,
    legend,
    names,
    outcome_counts,
    rate_title,
    section_title,
    sections,
    shape_head,
    shape_text,
    short,
    status_groups,
    status_text,
    unfinished,
    variant_text,
    who,
    why_marked,
)
from softbench.analysis.leaderboard.headline import undecided_note
from softbench.analysis.leaderboard.inversions import lead_note
from softbench.analysis.leaderboard.machines import ACROSS, Machine, shares
from softbench.model import Case

WIDTH = 120
GAP = "  "
FOLDED = 3
"""So many implementations without a pass are a sentence and no rows: without a GPU they were most of the table."""
LEAST = 20
"""Columns that words are given at the least, however long the labels beside them."""


def summary_table(board: Board, width: int = WIDTH) -> str:
    """Timed cases by implementation, latency (ms) and `rate_title`; sections by dtype, at most width columns wide.

    Implementations that do not fit side by side follow below, under the same row labels. "" without a timed case.
    """
    parts: list[str] = []
    for section, cases in sections(board).items():
        labels = [shape_head(cases), *(shape_text(case.case) for case in cases)]
        columns = [[short(name), *(_summary_text(c, name) for c in cases)] for name in names(board, section[0], cases)]
        if any(case.roof for case in cases):
            columns.append(["roof", *(cell_text(case.roof) if case.roof else "" for case in cases)])
        parts.append(f"{section_title(section)}: latency (ms) / {rate_title(cases)}")
        parts += [_grid(zip(labels, *block, strict=True)) for block in _blocks(labels, columns, width)]
    return "\n\n".join([*parts, "\n".join(_signs(line, width) for line in legend(board))]) if parts else ""


def ranking_table(board: Board, width: int = WIDTH) -> str:
    """Overall ranking, one table an operator, with notes on daggers; the correctness table where nothing was timed."""
    if not board.has_scores:
        return correctness_table(board, width)
    parts = [_filled(clock_note(board), width)]
    for operator in board.operators:
        standings = board.standings(operator)
        without = [s.implementation for s in standings if not s.passed and not s.failed_hard]
        folded = without if len(without) >= FOLDED else []
        rows = [standing_row(standing) for standing in standings if standing.implementation not in folded]
        parts.append(f"{operator}\n" + _folded([ranking_header(board), *rows], (1, 2), 2, width))
        notes = [_filled(_dagger_note(board, standing), width) for standing in standings if standing.failed_hard]
        parts += ["\n".join(notes)] if notes else []
        said = f"{len(folded)} implementations have no pass in a timed case: {', '.join(map(short, folded))}"
        parts += [_filled(said, width)] if folded else []
    return "\n\n".join(parts)


def ranking_header(board: Board) -> list[str]:
    return ["rank", "implementation", "family", "score", "coverage", f"vs {short(board.baseline)}", "wins", "ties"]


def standing_row(standing: Standing) -> list[str]:
    """One implementation as texts, in the order of `ranking_header`."""
    return [
        str(standing.rank) if standing.rank else "†" if standing.failed_hard else "-",
        short(standing.implementation) + ("†" if standing.failed_hard else ""),
        standing.family,
        "-" if standing.score is None else f"{standing.score:.1f}",
        f"{standing.passed}/{standing.timed}",
        "-" if standing.speedup is None else f"{standing.speedup:.2f}x",
        str(standing.wins),
        str(standing.ties),
    ]


def correctness_table(board: Board, width: int = WIDTH) -> str:
    """Implementation by what its cells came to, all cases counted; "declared" are failures that were foretold."""
    header = ["operator", "implementation", "passed", "checked", "compiled", "failed", "declared", "refused"]
    rows = [[s.operator, short(s.implementation), *map(str, outcome_counts(board, s))] for s in board.ranking]
    return _folded([header, *rows], (0, 1), 2, width)


def case_table(board: Board, case: Case, width: int = WIDTH) -> str:
    """The small board of one case; KeyError where the run does not have it. Columns without content are left out."""
    found = board.find(case.id)
    header = [
        "rank",
        "implementation",
        "status",
        "ms",
        "interval",
        "GB/s",
        "TFLOP/s",
        "% of roof",
        "call us",
        "device us",
        "traffic",
    ]
    header += ["registers", "stack B", "shared B"]
    cells = sorted(found.cells.values(), key=lambda cell: (cell.rank or len(found.cells) + 1, cell.latency_ns or 0.0))
    rows = [_case_row(cell, variant_text(cell.record) + ("†" if cell.dagger else "")) for cell in cells]
    rows += [_case_row(cell, f"({short(name)}: reference)") for name, cell in found.references.items()]
    rows += [_case_row(found.roof, f"({short(found.roof.record.variant.implementation)}: roof)")] if found.roof else []
    used = [index for index in range(len(header)) if index in (1, 2) or any(row[index] for row in rows)]
    shown = [[row[index] for index in used] for row in [header, *rows]]
    return f"{case.id}\n{_folded(shown, (used.index(1), used.index(2)), used.index(1) + 1, width)}"


def _case_row(cell: Cell, label: str) -> list[str]:
    rank, *figures = cell_figures(cell)
    return [rank, label, status_text(cell.record), *figures]


def statuses(board: Board, width: int = WIDTH) -> str:
    """Failures, then refusals: one line for all cells of one status and reason, under failures how to repeat one."""
    lines: list[str] = []
    for word, reason, records in status_groups(board):
        lines.append(_cut(f"{word} x{len(records)}  {who(records)}: {reason}", width))
        if not records[0].status.is_refusal:
            lines.append(f"    {records[0].reproduce or records[0].case.id}")
    early = [record for record in board.records if record.known_failure and record.status.is_success]
    told = (f"declared to fail, but {r.status.value}: {short(r.variant.implementation)} {r.case.id}" for r in early)
    lines += [_cut(line, width) for line in told]
    return "\n".join(lines)


def board_tables(board: Board, width: int = WIDTH) -> str:
    """What a benchmark session ends with: figures, ranking and what it does not say, what did not pass, what is missing."""
    said = (_filled(undecided_note(board), width), _filled(lead_note(board), width))
    notes = (*said, statuses(board, width), _filled(unfinished(board), width))
    parts = (summary_table(board, width), ranking_table(board, width), *notes)
    return "".join(f"\n{part.rstrip()}\n" for part in parts if part.strip())


def machine_tables(machines: Sequence[Machine], width: int = WIDTH) -> str:
    """The tables of one machine, or those of several under their names with a table of % of roof behind them."""
    parts: list[str] = []
    for machine in machines:
        parts += [f"\n{machine.title}\n{'=' * len(machine.title)}\n"] if len(machines) > 1 else []
        parts.append(board_tables(machine.board, width))
        parts += ["\n", *(f"note: {note}\n" for note in machine.notes)] if machine.notes else []
    return "".join(parts) + (share_table(machines, width) if len(machines) > 1 else "")


def share_table(machines: Sequence[Machine], width: int = WIDTH) -> str:
    """% of roof by case and implementation, a column a machine."""
    parts = [_filled(ACROSS, width)]
    header = ["[M, N]", "implementation", *(short(machine.title, 60) for machine in machines)]
    for title, rows in shares(machines).items():
        shown = [[shape, short(name), *texts] for shape, name, *texts in rows]
        parts.append(f"{title}: % of roof\n" + _folded([header, *shown], (0, 1), 2, width))
    return "".join(f"\n{part}\n" for part in parts)


def _summary_text(case: CaseBoard, name: str) -> str:
    return cell_text(case.cells[name]) if name in case.cells else "not run"


def _dagger_note(board: Board, standing: Standing) -> str:
    ids = standing.failed_hard
    more = f" and {len(ids) - 2} more" if len(ids) > 2 else ""
    return f"† {short(standing.implementation)} {why_marked(board, standing)}: {', '.join(ids[:2])}{more}"


def _blocks(labels: Sequence[str], columns: Sequence[Sequence[str]], width: int) -> list[list[Sequence[str]]]:
    """Columns packed into blocks that fit beside the row labels; a block holds one column at least."""
    margin = max(map(len, labels))
    blocks: list[list[Sequence[str]]] = [[]]
    used = margin
    for column in columns:
        need = len(GAP) + max(map(len, column))
        if blocks[-1] and used + need > width:
            blocks.append([])
            used = margin
        blocks[-1].append(column)
        used += need
    return blocks


def document_text(document: Document, width: int = WIDTH) -> str:
    """A document for a terminal, at most width columns wide: headings underlined, tables aligned, sentences wrapped."""
    parts: list[str] = []
    for part in document:
        if isinstance(part, Heading):
            said = _filled(part.text, width)
            parts.append(f"{said}\n{'=' * max(map(len, said.splitlines()))}")
        elif isinstance(part, Lines):
            parts.append("\n".join(part.lines if part.commands else (_filled(line, width) for line in part.lines)))
        else:
            parts.append((f"{_filled(part.title, width)}\n" if part.title else "") + _fitted(part, width))
    return "\n\n".join(parts) + "\n"


def _fitted(table: Table, width: int) -> str:
    """A grid as it is where that fits; else words are wrapped beside the labels of their row, and the rest is folded."""
    rows = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) <= width:
        return _grid(rows, table.left)
    room = max(LEAST, width - sum(widths[: table.labels]) - len(GAP) * table.labels)
    lines = [line for row in rows for line in _wrapped(row, table.labels, room)]
    return _folded(lines, table.left, table.labels, width)


def _wrapped(row: Sequence[str], labels: int, room: int) -> list[tuple[str, ...]]:
    """A row as the lines that it takes where no text behind its labels may be longer than room."""
    cells = [[text] if at < labels else _filled(text, room).splitlines() or [""] for at, text in enumerate(row)]
    return list(zip_longest(*cells, fillvalue=""))


def _filled(text: str, width: int) -> str:
    """Words stay whole, at their hyphens too, unless one of them would not fit: a long case's id."""
    is_tight = max(map(len, text.split()), default=0) > width
    return textwrap.fill(text, width, break_on_hyphens=is_tight, break_long_words=False)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _signs(line: str, width: int) -> str:
    """A line of the legend, broken between its parts where it is too long."""
    lines = [""]
    for part in line.split("   "):
        joined = f"{lines[-1]}   {part}" if lines[-1] else part
        lines[-1:] = [joined] if len(joined) <= width or not lines[-1] else [lines[-1], part]
    return "\n".join(lines)


def _folded(table: Sequence[Sequence[str]], left: Sequence[int], fixed: int, width: int) -> str:
    """A grid of at most width columns: what does not fit stands below, beside the same first `fixed` columns."""
    columns = [_padded(column, index in left) for index, column in enumerate(zip(*table, strict=True))]
    labels = [GAP.join(parts) for parts in zip(*columns[:fixed], strict=True)]
    blocks = _blocks(labels, columns[fixed:], width)
    return "\n\n".join(_grid(zip(labels, *block, strict=True)) for block in blocks)


def _padded(column: Sequence[str], is_left: bool) -> list[str]:
    widest = max(map(len, column))
    return [text.ljust(widest) if is_left else text.rjust(widest) for text in column]


def _grid(rows: Iterable[Sequence[str]], left: Sequence[int] | None = None) -> str:
    """Aligned columns under a ruled header; left names the left-aligned ones, all of them where it is None.

    A line without a word is left out: text that is wrapped in one block has no lines in the others.
    """
    columns = [_padded(c, left is None or i in left) for i, c in enumerate(zip(*rows, strict=True))]
    lines = [GAP.join(row).rstrip() for row in zip(*columns, strict=True)]
    rule = "-" * (sum(len(column[0]) for column in columns) + len(GAP) * (len(columns) - 1))
    return "\n".join([lines[0], rule, *filter(None, lines[1:])])
