"""Boards and documents as Markdown, and boards as CSV. Pure."""

from __future__ import annotations

import csv as csv_module
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields

from softbench.analysis.document import Document, Heading, Lines
from softbench.analysis.leaderboard import Board, CaseBoard, Cell, is_declared
from softbench.analysis.leaderboard.formatting import (
    cell_text,
    clock_note,
    legend,
    names,
    outcome_counts,
    rate_title,
    resources,
    section_title,
    sections,
    shape_head,
    shape_text,
    unfinished,
)
from softbench.analysis.leaderboard.headline import verdict
from softbench.analysis.leaderboard.machines import ACROSS, Machine, shares
from softbench.model import Traffic
from softbench.render.tables import ranking_header, standing_row

COLUMNS = (
    *("case", "operator", "shape", "dtype", "out_dtype", "layout", "distribution", "timed", "role"),
    *("implementation", "variant", "family", "status", "declared", "rank", "mark", "dagger", "best_of"),
    *("latency_ns", "low_ns", "high_ns", "bandwidth_gb_s", "tflop_s", "percent_of_roof", "speedup", "call_ns"),
    *("device_ns", "cache", "registers", "stack_bytes", "shared_bytes", "traffic_factor", "read_bytes"),
    *("written_bytes", "kernels_ns", "l1_hit_percent", "l2_hit_percent", "reason", "notes", "reproduce"),
)
_FIGURE = re.compile(r"[+-][\d.]+( ?(%|ns|us|ms|MHz|W))?$")
"""A text that begins with a sign and is a figure, not a formula."""


def markdown(board: Board) -> str:
    """Verdict, ranking (or counts if nothing was timed) and the timed cases."""
    parts = [_escaped(text) for text in (verdict(board), unfinished(board)) if text]
    if board.has_scores:
        parts.append(_escaped(clock_note(board)))
        rows = [standing_row(standing) for standing in board.ranking]
        header = ranking_header(board)
    else:
        header = ["implementation", "passed", "checked", "compiled", "failed", "declared", "refused"]
        rows = [[s.implementation, *map(str, outcome_counts(board, s))] for s in board.ranking]
    parts += [_table(header, rows)] if rows else []
    for section, cases in sections(board).items():
        shown = names(board, section[0], cases)
        parts.append(f"### {_escaped(section_title(section))}: latency (ms) / {rate_title(cases)}")
        roof = ["roof"] if any(case.roof for case in cases) else []
        rows = [_summary_row(case, shown, bool(roof)) for case in cases]
        parts.append(_table([shape_head(cases), *shown, *roof], rows))
    parts += [_escaped("   ".join(legend(board)).replace("   ", "; "))] if board.timed else []
    return "\n\n".join(parts) + "\n"


def machines_markdown(machines: Sequence[Machine]) -> str:
    """The board of one machine, or those of several under their names after a table of % of roof."""
    parts: list[str] = []
    if len(machines) > 1:
        parts.append(_escaped(ACROSS))
        header = ["[M, N]", "implementation", *(machine.title for machine in machines)]
        for title, rows in shares(machines).items():
            parts += [f"## {_escaped(title)}: % of roof", _table(header, rows)]
    for machine in machines:
        parts += [f"## {_escaped(machine.title)}"] if len(machines) > 1 else []
        parts.append(markdown(machine.board).rstrip())
        parts += ["\n".join(f"- {_escaped(note)}" for note in machine.notes)] if machine.notes else []
    return "\n\n".join(parts) + "\n"


def document_markdown(document: Document) -> str:
    """A document as Markdown."""
    parts: list[str] = []
    for part in document:
        if isinstance(part, Heading):
            parts.append(f"{'#' * part.level} {_escaped(part.text)}")
        elif isinstance(part, Lines):
            text = "\n".join(part.lines)
            escaped = text if part.markdown else "\n\n".join(map(_escaped, part.lines))
            parts.append(_fenced(text) if part.commands else escaped)
        else:
            parts += [f"**{_escaped(part.title)}**"] if part.title else []
            parts.append(_table(part.header, part.rows))
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """The text between fences longer than any in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 0)
    return f"{fence}\n{text}\n{fence}"


def csv(board: Board) -> str:
    """One line per cell under the header `COLUMNS`, figures with all their digits, "" if there is none."""
    return csv_text(COLUMNS, _cells(board))


def machines_csv(machines: Sequence[Machine]) -> str:
    """`csv` of one machine; of several with a first column that names the machine."""
    if len(machines) == 1:
        return csv(machines[0].board)
    lines = ([machine.title, *line] for machine in machines for line in _cells(machine.board))
    return csv_text(("machine", *COLUMNS), lines)


def csv_text(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    buffer = io.StringIO()
    writer = csv_module.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_inert(cell) if isinstance(cell, str) else cell for cell in line] for line in lines)
    return buffer.getvalue()


def _inert(text: str) -> str:
    """A text that no spreadsheet takes for a formula; a single sign is none."""
    return f"'{text}" if len(text) > 1 and text.lstrip(" ")[:1] in tuple("=+-@\t\r\n") else text


def _cells(board: Board) -> Iterable[list[object]]:
    return (_line(cell) for case in board.cases for cell in case.all_cells)


def _line(cell: Cell) -> list[object]:
    record = cell.record
    case, variant = record.case, record.variant
    cache = cell.samples[0].cache if cell.samples else ""
    return [
        *(case.id, case.operator, "x".join(map(str, case.shape)), case.dtype, case.out_dtype, case.layout),
        *(case.distribution, str(case.timed).lower(), record.role, variant.implementation, variant.id, variant.family),
        *(record.status.value, str(is_declared(record)).lower()),
        *(cell.rank, cell.mark, str(cell.dagger).lower(), record.best_of),
        *(cell.latency_ns, cell.low_ns, cell.high_ns, cell.bandwidth_gb_s, cell.tflop_s),
        *(cell.percent_of_roof, cell.speedup),
        *(cell.call_ns, cell.device_ns, cache, *resources(record)),
        cell.traffic_factor,
        *(astuple(record.traffic) if record.traffic else [None] * len(fields(Traffic))),
        *(record.reason, "; ".join(record.notes), record.reproduce),
    ]


def _summary_row(case: CaseBoard, shown: Sequence[str], has_roof: bool) -> list[str]:
    cells = [cell_text(case.cells[name]) if name in case.cells else "not run" for name in shown]
    return [shape_text(case.case), *cells, *[cell_text(case.roof) if case.roof else ""] * has_roof]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_row(header), "| " + " | ".join(["---"] * len(header)) + " |", *map(_row, rows)])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(text if _FIGURE.match(text) else _inert(text)) for text in texts) + " |"


def _escaped(text: str) -> str:
    """Text on one line, in which Markdown finds no markup."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    flat = re.sub(r"[\\|*`]", r"\\\g<0>", flat).replace("](", "]\\(")
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", flat)
