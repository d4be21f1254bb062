"""The words and number formats that the terminal, the page and the exports share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from softbench.analysis.leaderboard.board import Board, CaseBoard, Cell, Standing, is_declared
from softbench.model import Case, Passport, Record, Status

NAME_LIMIT = 24
LEGEND = "* fastest   = tied for fastest   ? cannot tell   † fails a hard case or timed calls, so not ranked   w warm L2 cache"
RARER = {"~": "GPU throttled or slower in some rounds", "o": "overlapping launches"}
SectionKey = tuple[str, str, str, str]


def why_marked(board: Board, standing: Standing) -> str:
    """Why an implementation bears a dagger: "fails 2 hard cases and is wrong in timed calls of 1 case"."""
    timed = {case.case.id for case in board.timed}.intersection(standing.failed_hard)
    hard = len(standing.failed_hard) - len(timed)
    said = [f"fails {plural(hard, 'hard case')}"] if hard else []
    said += [f"is wrong in timed calls of {plural(len(timed), 'case')}"] if timed else []
    return " and ".join(said)


def ended_early(passport: Passport, cases: int) -> str:
    """What a run of so many cases lacks that was ended from outside, or by -x; "" where nothing, or that is not known."""
    if cases >= passport.cases:
        return ""
    asked = plural(passport.cases, "case")
    return f"{cases} of {asked}: the run was ended before it had the others; --softbench-resume goes on with it."


def unfinished(board: Board) -> str:
    """`ended_early` of the run that a board is made of."""
    return ended_early(board.passport, len(board.cases))


def clock_note(board: Board) -> str:
    """What the figures of the run stand for."""
    score = (
        "Score: geometric mean of % of roof; a case without a pass counts half of the slowest pass, or of one's own."
    )
    if board.passport.ranking_clock == "wall":
        roof = "Wall clock on a machine without a GPU; the roof is a copy on that machine and says nothing about a GPU."
    else:
        clock = board.passport.ranking_clock
        roof = f"Ranked by the {clock} clock; % of roof is against the roof kernels timed in the same rounds."
    without = sum(case.roof is None or not case.roof.samples for case in board.timed)
    if without and without < len(board.timed):
        score += f" In {plural(without, 'case')} without a roof the fastest pass stands for it."
    return f"{roof} {score}"


def failures(undeclared: int, declared: int) -> str:
    """Failed cells, and which of them were declared: those are failures too."""
    if not declared:
        return f"{undeclared} failed"
    if not undeclared:
        return f"{declared} failed as declared"
    return f"{undeclared + declared} failed ({declared} as declared)"


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


def sections(board: Board) -> dict[SectionKey, list[CaseBoard]]:
    """Timed cases by (operator, dtype, out_dtype, layout), in the order of the run."""
    found: dict[SectionKey, list[CaseBoard]] = {}
    for case in board.timed:
        key = (case.case.operator, case.case.dtype, case.case.out_dtype, case.case.layout)
        found.setdefault(key, []).append(case)
    return found


def section_title(section: SectionKey) -> str:
    operator, dtype, out_dtype, layout = section
    return f"{operator}, {_dtypes(dtype, out_dtype)}" + ("" if layout == "contiguous" else f", {layout}")


def dtype_text(case: Case) -> str:
    return _dtypes(case.dtype, case.out_dtype)


def _dtypes(dtype: str, out_dtype: str) -> str:
    return dtype if dtype == out_dtype else f"{dtype} to {out_dtype}"


def names(board: Board, operator: str, cases: Sequence[CaseBoard]) -> list[str]:
    """Implementations that take part in these cases, best first; those that refuse all of them only if nobody serves one."""
    statuses = {
        s.implementation: {case.cells[s.implementation].status for case in cases if s.implementation in case.cells}
        for s in board.standings(operator)
    }
    serving = [name for name, found in statuses.items() if found - {Status.UNSUPPORTED}]
    return serving or [name for name, found in statuses.items() if found]


def shape_text(case: Case) -> str:
    return "[" + ", ".join(map(str, case.shape)) + "]"


def shape_head(cases: Iterable[CaseBoard], of_matrices: str = "[M, N]") -> str:
    """What heads the shapes of these cases."""
    return of_matrices if all(len(case.case.shape) == 2 for case in cases) else "shape"


def roof_note(cases: Iterable[CaseBoard]) -> str:
    """What the roof of these cases is."""
    kernels = dict.fromkeys(case.roof.record.variant.implementation for case in cases if case.roof)
    return ", ".join("a copy" if name in ("copy", "host_copy") else short(name) for name in kernels)


def rate_title(cases: Iterable[CaseBoard]) -> str:
    """What stands behind the latency in the cells of these cases, which are of one operator."""
    return "TFLOP/s" if any(cell.tflop_s for case in cases for cell in case.cells.values()) else "bandwidth (GB/s)"


def cell_text(cell: Cell) -> str:
    """A cell as "0.0485 / 2765.00 *", by what `rate_title` says, or its status word with what the compiled kernels take."""
    if cell.latency_ns is None:
        registers, stack, _ = resources(cell.record)
        taken = f" {registers} regs" if registers else ""
        spilled = f" {stack} B stack" if stack not in ("", "0") else ""
        return status_text(cell.record) + taken + spilled + (" †" if cell.dagger else "")
    figure = cell.bandwidth_gb_s if cell.tflop_s is None else cell.tflop_s
    rate = "-" if figure is None else f"{figure:.2f}"
    mark = "†" if cell.dagger else "*" if cell.is_winner else cell.mark if cell.rank == 1 else ""
    return " ".join(filter(None, [f"{milliseconds(cell.latency_ns)} / {rate}", mark, conditions(cell)]))


def conditions(cell: Cell) -> str:
    """Under what conditions a time was taken, a sign each: `legend` says what they stand for."""
    return "w" * cell.is_warm + "~" * cell.is_unsteady + "o" * cell.is_overlapping


def legend(board: Board) -> list[str]:
    """What the signs stand for, in one line or two, their parts three blanks apart; the rarer ones where there are some."""
    shown = {sign for case in board.timed for cell in case.every for sign in conditions(cell)}
    rarer = "   ".join(f"{sign} {text}" for sign, text in RARER.items() if sign in shown)
    return [LEGEND, rarer] if rarer else [LEGEND]


def status_text(record: Record) -> str:
    """The status word; a declared failure says xfail, a pass that shows the call clock alone says so."""
    if is_declared(record):
        return f"{record.status.value} (xfail)"
    only_call = record.samples and all(samples.clock == "call" for samples in record.samples)
    return record.status.value + (" (call only)" if only_call else "")


def variant_text(record: Record) -> str:
    return short(record.variant.id) + (f" best of {record.best_of}" if record.best_of > 1 else "")


def resources(record: Record) -> list[str]:
    """Registers a thread, stack bytes (spills) and static shared bytes, the most that any of its kernels takes."""
    if not record.kernels:
        return ["", "", ""]
    return [
        str(max(kernel.registers for kernel in record.kernels)),
        str(max(kernel.stack_bytes for kernel in record.kernels)),
        str(max(kernel.shared_bytes for kernel in record.kernels)),
    ]


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


def cell_figures(cell: Cell) -> list[str]:
    """Rank, ms, interval, GB/s, TFLOP/s, % of roof, call us, device us, traffic, registers, stack, shared bytes; "" if unknown."""
    return [
        f"{cell.rank}{'*' if cell.is_winner else cell.mark}" if cell.rank else "",
        number(cell.latency_ns, milliseconds),
        interval_text(cell),
        number(cell.bandwidth_gb_s, "{:.0f}".format),
        number(cell.tflop_s, "{:.1f}".format),
        number(cell.percent_of_roof, "{:.1f}".format),
        number(cell.call_ns, microseconds),
        number(cell.device_ns, microseconds),
        number(cell.traffic_factor, "{:.3f}x".format),
        *resources(cell.record),
    ]


def interval_text(cell: Cell) -> str:
    """Half-width of the interval in per cent, "±>100 %" where two placements say next to nothing; "" where none is known."""
    half = cell.half_width
    return "" if half is None or math.isinf(half) else half_width(half)


def half_width(percent: float) -> str:
    """Of an interval. One of 250 % is no figure that anybody should read."""
    return f"±{percent:.2f} %" if percent <= 100 else "±>100 %"
