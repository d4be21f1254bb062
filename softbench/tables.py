"""Plain-text tables for the terminal, and the words and number formats that all renderers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from softbench.leaderboard import Board, CaseBoard, Cell, Standing, is_declared
from softbench.model import Case, Record

WIDTH = 120
NAME_LIMIT = 24
GAP = "  "
LEGEND = "* fastest   = tied for fastest   ? cannot tell   † fails a hard case, so not ranked   w warm L2 cache"
Section = tuple[str, str, str, str]


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
    return "\n\n".join([*parts, LEGEND]) if parts else ""


def ranking_table(board: Board) -> str:
    """Overall ranking, one table an operator, with notes on daggers; the correctness table where nothing was timed."""
    if not board.has_scores:
        return correctness_table(board)
    parts = [clock_note(board)]
    for operator in board.operators:
        standings = board.standings(operator)
        rows = [standing_row(standing) for standing in standings]
        parts.append(f"{operator}\n" + _grid([ranking_header(board), *rows], left=(1, 2)))
        notes = [_dagger_note(standing) for standing in standings if standing.failed_hard]
        parts += ["\n".join(notes)] if notes else []
    return "\n\n".join(parts)


def ranking_header(board: Board) -> list[str]:
    return ["rank", "implementation", "family", "% of roof", "coverage", f"vs {short(board.baseline)}", "wins", "ties"]


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


def outcome_counts(board: Board, standing: Standing) -> tuple[int, int, int, int, int, int]:
    """Cells of one implementation: passed, checked, compiled, failed, declared failures, refused."""
    cases = [case for case in board.cases if case.case.operator == standing.operator]
    records = [case.cells[standing.implementation].record for case in cases if standing.implementation in case.cells]
    words = [record.status.value for record in records]
    return (
        words.count("PASSED"),
        words.count("CHECKED"),
        words.count("COMPILED"),
        sum(record.status.is_failure and not is_declared(record) for record in records),
        sum(is_declared(record) for record in records),
        sum(record.status.is_refusal for record in records),
    )


def case_table(board: Board, case: Case) -> str:
    """The small board of one case; KeyError where the run does not have it. Columns without content are left out."""
    found = board.find(case.id)
    header = ["rank", "implementation", "status", "latency (ms)", "GB/s", "% of roof", "call (us)", "device (us)"]
    header += ["registers", "stack (B)", "shared (B)"]
    cells = sorted(found.cells.values(), key=lambda cell: (cell.rank or len(found.cells) + 1, cell.latency_ns or 0.0))
    rows = [_case_row(cell, variant_text(cell.record) + ("†" if cell.dagger else "")) for cell in cells]
    rows += [_case_row(cell, f"({short(name)}: reference)") for name, cell in found.references.items()]
    rows += [_case_row(found.roof, f"({short(found.roof.record.variant.implementation)}: roof)")] if found.roof else []
    used = [index for index in range(len(header)) if index in (1, 2) or any(row[index] for row in rows)]
    table = _grid(([row[index] for index in used] for row in [header, *rows]), left=(used.index(1), used.index(2)))
    return f"{case.id}\n{table}"


def _case_row(cell: Cell, label: str) -> list[str]:
    return [
        f"{cell.rank}{cell.mark}" if cell.rank else "",
        label,
        status_text(cell.record),
        number(cell.latency_ns, milliseconds),
        number(cell.bandwidth_gb_s, "{:.0f}".format),
        number(cell.percent_of_roof, "{:.1f}".format),
        number(cell.call_ns, microseconds),
        number(cell.device_ns, microseconds),
        *resources(cell.record),
    ]


def resources(record: Record) -> list[str]:
    """Registers a thread, stack bytes (spills) and static shared bytes, the most that any of its kernels takes."""
    if not record.kernels:
        return ["", "", ""]
    return [
        str(max(kernel.registers for kernel in record.kernels)),
        str(max(kernel.stack_bytes for kernel in record.kernels)),
        str(max(kernel.shared_bytes for kernel in record.kernels)),
    ]


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


def status_groups(board: Board) -> list[tuple[str, str, list[Record]]]:
    """(status word, first line of the reason, their records), failures before refusals, else in the order of the run."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in board.records:
        if not record.status.is_success:
            groups.setdefault((status_text(record), first_line(record.reason)), []).append(record)
    found = [(word, reason, records) for (word, reason), records in groups.items()]
    return sorted(found, key=lambda group: group[2][0].status.is_refusal)


def who(records: Iterable[Record]) -> str:
    """The implementations of some records, the first three by name."""
    roles = ((short(r.variant.implementation), "" if r.role == "entrant" else f" ({r.role})") for r in records)
    found = list(dict.fromkeys(name + role for name, role in roles))
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def clock_note(board: Board) -> str:
    """What the figures of the run stand for."""
    if board.passport.ranking_clock == "wall":
        return "Wall clock on a machine without a GPU; the roof is a copy on that machine and says nothing about a GPU."
    clock = board.passport.ranking_clock
    return f"Ranked by the {clock} clock; % of roof is against the roof kernels timed in the same rounds."


def verdict(board: Board) -> str:
    """What the run says, in one sentence an operator."""
    return " ".join(_verdict(board, operator) for operator in board.operators) or "The run holds no cells."


def _verdict(board: Board, operator: str) -> str:
    standings = board.standings(operator)
    scored = [standing for standing in standings if standing.score is not None]
    if not scored:
        total = [sum(column) for column in zip(*(outcome_counts(board, s) for s in standings), strict=True)] or [0] * 6
        right, failed = sum(total[:3]), total[3] + total[4]
        return f"Nothing of {operator} was timed: {plural(right, 'cell')} right, {failed} failed, {total[5]} refused."
    leader = scored[0]
    if leader.rank is None:
        return f"Nobody leads {operator}: every timed implementation fails a hard case (†)."
    speedup = f", {leader.speedup:.2f}x {short(board.baseline)}" if leader.speedup is not None else ""
    if leader.implementation == board.baseline:
        speedup = ""
    won = f"alone the fastest in {leader.wins} and tied for it in {leader.ties} of {plural(leader.timed, 'case')}"
    where = short(str(board.passport.device.get("name", "this machine")), 60)
    return f"{short(leader.implementation)} leads {operator} on {where}: {leader.score:.1f} % of roof{speedup}, {won}."


def sections(board: Board) -> dict[Section, list[CaseBoard]]:
    """Timed cases by (operator, dtype, out_dtype, layout), in the order of the run."""
    found: dict[Section, list[CaseBoard]] = {}
    for case in board.timed:
        key = (case.case.operator, case.case.dtype, case.case.out_dtype, case.case.layout)
        found.setdefault(key, []).append(case)
    return found


def section_title(section: Section) -> str:
    operator, dtype, out_dtype, layout = section
    dtypes = dtype if dtype == out_dtype else f"{dtype} to {out_dtype}"
    return f"{operator}, {dtypes}" + ("" if layout == "contiguous" else f", {layout}")


def names(board: Board, operator: str, cases: Sequence[CaseBoard]) -> list[str]:
    """Implementations that take part in these cases, best first."""
    return [
        s.implementation for s in board.standings(operator) if any(s.implementation in case.cells for case in cases)
    ]


def shape_text(case: Case) -> str:
    return "[" + ", ".join(map(str, case.shape)) + "]"


def _summary_text(case: CaseBoard, name: str) -> str:
    return cell_text(case.cells[name]) if name in case.cells else "not run"


def cell_text(cell: Cell) -> str:
    """A cell as "0.0485 / 2765.00 *", or its status word."""
    if cell.latency_ns is None:
        registers = resources(cell.record)[0]
        return status_text(cell.record) + (f" {registers} regs" if registers else "") + (" †" if cell.dagger else "")
    bandwidth = "-" if cell.bandwidth_gb_s is None else f"{cell.bandwidth_gb_s:.2f}"
    mark = "†" if cell.dagger else "*" if cell.is_winner else cell.mark if cell.rank == 1 else ""
    return " ".join(filter(None, [f"{milliseconds(cell.latency_ns)} / {bandwidth}", mark, "w" if cell.is_warm else ""]))


def status_text(record: Record) -> str:
    """The status word; a declared failure says xfail, a pass that shows the call clock alone says so."""
    if is_declared(record):
        return f"{record.status.value} (xfail)"
    only_call = record.samples and all(samples.clock == "call" for samples in record.samples)
    return record.status.value + (" (call only)" if only_call else "")


def variant_text(record: Record) -> str:
    return short(record.variant.id) + (f" best of {record.best_of}" if record.best_of > 1 else "")


def number(value: float | None, form: Callable[[float], str]) -> str:
    return "" if value is None else form(value)


def milliseconds(ns: float) -> str:
    """Four decimals as is usual; six under 10 us, where four would leave two digits."""
    return f"{ns / 1e6:.4f}" if ns >= 1e4 else f"{ns / 1e6:.6f}"


def microseconds(ns: float) -> str:
    return f"{ns / 1e3:.2f}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def short(name: str, limit: int = NAME_LIMIT) -> str:
    """A name in at most limit characters; the middle gives way, since variants differ at their ends."""
    flat = " ".join(name.split())
    tail = (limit - 1) // 2
    return flat if len(flat) <= limit else f"{flat[: limit - 1 - tail]}…{flat[-tail:]}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


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
