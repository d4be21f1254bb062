"""Plain-text tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from softbench.leaderboard import Board, CaseBoard, Cell, Standing
from softbench.leaderboard.across import ACROSS, Machine, shares
from softbench.leaderboard.words import (
    cell_figures,
    cell_text,
    clock_note,
    legend,
    names,
    outcome_counts,
    plural,
    section_title,
    sections,
    shape_text,
    short,
    status_groups,
    status_text,
    variant_text,
    who,
)
from softbench.model import Case
from softbench.sheet import Heading, Lines, Sheet

WIDTH = 120
GAP = "  "


def summary_table(board: Board, width: int = WIDTH) -> str:
    """Timed cases by implementation, "latency (ms) / bandwidth (GB/s)"; sections by dtype, at most width columns wide.

    Implementations that do not fit side by side follow below, under the same row labels. "" without a timed case.
    """
    parts: list[str] = []
    for section, cases in sections(board).items():
        labels = ["[M, N]", *(shape_text(case.case) for case in cases)]
        columns = [[short(name), *(_summary_text(c, name) for c in cases)] for name in names(board, section[0], cases)]
        if any(case.roof for case in cases):
            columns.append(["roof", *(cell_text(case.roof) if case.roof else "" for case in cases)])
        parts.append(f"{section_title(section)}: latency (ms) / bandwidth (GB/s)")
        parts += [_grid(zip(labels, *block, strict=True)) for block in _blocks(labels, columns, width)]
    return "\n\n".join([*parts, "\n".join(legend(board))]) if parts else ""


def ranking_table(board: Board) -> str:
    """Overall ranking, one table an operator, with notes on daggers; the correctness table where nothing was timed."""
    if not board.has_scores:
        return correctness_table(board)
    parts = [textwrap.fill(clock_note(board), WIDTH)]
    for operator in board.operators:
        standings = board.standings(operator)
        rows = [standing_row(standing) for standing in standings]
        parts.append(f"{operator}\n" + _grid([ranking_header(board), *rows], left=(1, 2)))
        notes = [_dagger_note(standing) for standing in standings if standing.failed_hard]
        parts += ["\n".join(notes)] if notes else []
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


def correctness_table(board: Board) -> str:
    """Implementation by what its cells came to, all cases counted; "declared" are failures that were foretold."""
    header = ["operator", "implementation", "passed", "checked", "compiled", "failed", "declared", "refused"]
    rows = [[s.operator, short(s.implementation), *map(str, outcome_counts(board, s))] for s in board.ranking]
    return _grid([header, *rows], left=(0, 1))


def case_table(board: Board, case: Case) -> str:
    """The small board of one case; KeyError where the run does not have it. Columns without content are left out."""
    found = board.find(case.id)
    header = [
        "rank",
        "implementation",
        "status",
        "ms",
        "interval",
        "GB/s",
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
    table = _grid(([row[index] for index in used] for row in [header, *rows]), left=(used.index(1), used.index(2)))
    return f"{case.id}\n{table}"


def _case_row(cell: Cell, label: str) -> list[str]:
    rank, *figures = cell_figures(cell)
    return [rank, label, status_text(cell.record), *figures]


def statuses(board: Board, width: int = WIDTH) -> str:
    """Failures, then refusals: one line for all cells of one status and reason, under failures how to repeat one."""
    lines: list[str] = []
    for word, reason, records in status_groups(board):
        shown = f"{word} x{len(records)}  {who(records)}: {reason}"
        lines.append(shown if len(shown) <= width else shown[: width - 1] + "…")
        if not records[0].status.is_refusal:
            lines.append(f"    {records[0].reproduce or records[0].case.id}")
    early = [record for record in board.records if record.known_failure and record.status.is_success]
    lines += [f"declared to fail, but {r.status.value}: {short(r.variant.implementation)} {r.case.id}" for r in early]
    return "\n".join(lines)


def board_tables(board: Board) -> str:
    """What a benchmark session ends with: figures, ranking, and what did not pass."""
    parts = (summary_table(board), ranking_table(board), statuses(board))
    return "".join(f"\n{part.rstrip()}\n" for part in parts if part.strip())


def machine_tables(machines: Sequence[Machine]) -> str:
    """The tables of one machine, or those of several under their names with a table of % of roof behind them."""
    parts: list[str] = []
    for machine in machines:
        parts += [f"\n{machine.title}\n{'=' * len(machine.title)}\n"] if len(machines) > 1 else []
        parts.append(board_tables(machine.board))
        parts += ["\n", *(f"note: {note}\n" for note in machine.notes)] if machine.notes else []
    return "".join(parts) + (share_table(machines) if len(machines) > 1 else "")


def share_table(machines: Sequence[Machine]) -> str:
    """% of roof by case and implementation, a column a machine."""
    parts = [textwrap.fill(ACROSS, WIDTH)]
    header = ["[M, N]", "implementation", *(short(machine.title, 60) for machine in machines)]
    for title, rows in shares(machines).items():
        shown = [[shape, short(name), *texts] for shape, name, *texts in rows]
        parts.append(f"{title}: % of roof\n" + _grid([header, *shown], left=(0, 1)))
    return "".join(f"\n{part}\n" for part in parts)


def _summary_text(case: CaseBoard, name: str) -> str:
    return cell_text(case.cells[name]) if name in case.cells else "not run"


def _dagger_note(standing: Standing) -> str:
    ids = standing.failed_hard
    more = f" and {len(ids) - 2} more" if len(ids) > 2 else ""
    return f"† {short(standing.implementation)} fails {plural(len(ids), 'hard case')}: {', '.join(ids[:2])}{more}"


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


def sheet_text(sheet: Sheet) -> str:
    """A sheet for a terminal: headings underlined, tables aligned, sentences wrapped."""
    parts: list[str] = []
    for part in sheet:
        if isinstance(part, Heading):
            parts.append(f"{part.text}\n{'=' * len(part.text)}")
        elif isinstance(part, Lines):
            parts.append("\n".join(part.lines if part.commands else map(_wrapped, part.lines)))
        else:
            parts.append((f"{part.title}\n" if part.title else "") + _grid([part.header, *part.rows], part.left))
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def _grid(rows: Iterable[Sequence[str]], left: Sequence[int] | None = None) -> str:
    """Aligned columns under a ruled header; left names the left-aligned ones, all of them where it is None."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        aligned = (
            text.ljust(width) if left is None or index in left else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(GAP.join(aligned).rstrip())
    rule = "-" * (sum(widths) + len(GAP) * (len(widths) - 1))
    return "\n".join([lines[0], rule, *lines[1:]])
