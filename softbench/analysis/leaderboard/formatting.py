"""The words and number formats that the terminal, the page and the exports share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from softbench.analysis.leaderboard.board import Board, CaseBoard, Cell, Standing, is_declared
from softbench.model import OPEN, Case, Passport, Record, Status

NAME_LIMIT = 24
FEW_PLACEMENTS = 2
"""With so few an interval of one case is a hundred times their difference: their number says more."""
LEGEND = "* fastest   = tied for fastest   ? cannot tell   † fails a hard case or timed calls, so not ranked   w warm L2 cache"
OPEN_LEGEND = "open not sealed, so not ranked"
RARER = {"~": "GPU throttled or slower in some rounds", "o": "overlapping launches"}
FIGURES = (
    *("rank", "ms", "interval", "GB/s", "TFLOP/s", "% of roof", "call us", "device us", "traffic"),
    *("registers", "stack B", "shared B", "error"),
)
"""The header of `cell_figures`. The error is the largest, in units of its bound."""
SectionKey = tuple[str, str, str]


def ended_early(passport: Passport, cases: int) -> str:
    """How many of its cases a run has, if it was ended early; "" if it has all, or if their number is not known."""
    if cases >= passport.cases:
        return ""
    return f"{cases} of {plural(passport.cases, 'case')}: the run was ended early; --softbench-resume runs the others."


def unfinished(board: Board) -> str:
    return ended_early(board.passport, len(board.cases))


def failures(undeclared: int, declared: int) -> str:
    """Failed cells, and how many of them were declared: those are failures too."""
    if not declared:
        return f"{undeclared} failed"
    if not undeclared:
        return f"{declared} failed as declared"
    return f"{undeclared + declared} failed ({declared} as declared)"


class Outcomes(NamedTuple):
    """Numbers of cells; a declared failure is not among the failed ones."""

    passed: int
    checked: int
    compiled: int
    failed: int
    declared: int
    refused: int

    @property
    def right(self) -> int:
        return self.passed + self.checked + self.compiled


def outcomes(board: Board, *standings: Standing) -> Outcomes:
    """The cells of some implementations."""
    wanted = {(s.operator, s.implementation) for s in standings}
    records = [cell.record for case in board.cases for name, cell in case.cells.items() if (case.case.operator, name) in wanted]
    statuses, declared = [record.status for record in records], sum(map(is_declared, records))
    passed, checked, compiled = map(statuses.count, (Status.PASSED, Status.CHECKED, Status.COMPILED))
    failed, refused = sum(s.is_failure for s in statuses) - declared, sum(s.is_refusal for s in statuses)
    return Outcomes(passed, checked, compiled, failed, declared, refused)


def who(records: Iterable[Record]) -> str:
    """The implementations of some records, the first three by name."""
    roles = ((short(r.variant.implementation), "" if r.role == "entrant" else f" ({r.role})") for r in records)
    return some(list(dict.fromkeys(name + role for name, role in roles)), 3)


def sections(board: Board) -> dict[SectionKey, list[CaseBoard]]:
    """Timed cases by (operator, dtype, out_dtype), in the order of the run."""
    by_key: dict[SectionKey, list[CaseBoard]] = {}
    for case in board.timed:
        by_key.setdefault((case.case.operator, case.case.dtype, case.case.out_dtype), []).append(case)
    return by_key


def section_title(section: SectionKey) -> str:
    operator, dtype, out_dtype = section
    return f"{operator}, {dtype_text(dtype, out_dtype)}"


def dtype_text(dtype: str, out_dtype: str) -> str:
    return dtype if dtype == out_dtype else f"{dtype} to {out_dtype}"


def names(board: Board, operator: str, cases: Sequence[CaseBoard]) -> list[str]:
    """Implementations of these cases, best first. One that refuses all of them is left out, unless all do."""
    statuses = {
        s.implementation: {case.cells[s.implementation].status for case in cases if s.implementation in case.cells}
        for s in board.standings(operator)
    }
    serving = [name for name, own in statuses.items() if own - {Status.UNSUPPORTED}]
    return serving or [name for name, own in statuses.items() if own]


def shape_text(case: Case) -> str:
    """The shape, with what else tells a case apart from others of its section."""
    return " ".join([f"[{', '.join(map(str, case.shape))}]", *variety(case)])


def shape_texts(cases: Sequence[CaseBoard]) -> list[str]:
    """The labels of the rows of a table, without the parameters that are the same in all of them."""
    own = [case.case for case in cases]
    alike = set.intersection(*(set(case.params) for case in own)) if len(own) > 1 else ()
    texts = [shape_text(replace(case, params=tuple(pair for pair in case.params if pair not in alike))) for case in own]
    return texts if len(set(texts)) == len(texts) else [case.id for case in own]


def variety(case: Case) -> list[str]:
    """Layout and values, if they are not the usual ones, and parameters."""
    words = [word for word in (case.layout, case.distribution) if word not in ("contiguous", "normal")]
    brief = ((name, f"{value:.3g}" if isinstance(value, float) else value) for name, value in case.params)
    return [*words, *(f"{name} {value}" for name, value in brief)]


def shape_head(cases: Iterable[CaseBoard], of_matrices: str = "[M, N]") -> str:
    return of_matrices if all(len(case.case.shape) == 2 for case in cases) else "shape"


def roof_note(cases: Iterable[CaseBoard]) -> str:
    kernels = dict.fromkeys(case.roof.record.variant.implementation for case in cases if case.roof)
    return ", ".join("a copy" if name in ("copy", "host_copy") else short(name) for name in kernels)


def rate_title(cases: Iterable[CaseBoard]) -> str:
    """The unit of the second figure in the cells of these cases of one operator."""
    return "TFLOP/s" if any(cell.tflop_s for case in cases for cell in case.cells.values()) else "bandwidth (GB/s)"


def cell_text(cell: Cell) -> str:
    """A cell as "0.0485 / 2765.00 *" in the unit of `rate_title`, or its status word with the kernel's registers and stack."""
    if cell.latency_ns is None:
        registers, stack, _ = resources(cell.record)
        used = "" if registers is None else f" {registers} regs"
        spilled = f" {stack} B stack" if stack else ""
        return status_text(cell.record) + used + spilled + " †" * cell.dagger
    figure = cell.bandwidth_gb_s if cell.tflop_s is None else cell.tflop_s
    rate = "-" if figure is None else f"{figure:.2f}"
    return " ".join(filter(None, [f"{milliseconds(cell.latency_ns)} / {rate}", sign(cell), conditions(cell)]))


def rank_mark(cell: Cell) -> str:
    return "*" if cell.is_winner else cell.mark


def sign(cell: Cell) -> str:
    """The sign of a cell: not ranked, alone the fastest, tied for it, or of a rank that is not known."""
    if cell.dagger or cell.is_open:
        return "†" if cell.dagger else OPEN
    return rank_mark(cell) if cell.rank == 1 or cell.mark == "?" else ""


def signs(cell: Cell) -> str:
    return f"{sign(cell)}{' ' * (cell.is_open and bool(conditions(cell)))}{conditions(cell)}"


def conditions(cell: Cell) -> str:
    """The conditions of a time, one sign each: `legend` explains them."""
    return "w" * cell.is_warm + "~" * cell.is_unsteady + "o" * cell.is_overlapping


def legend(board: Board) -> list[str]:
    """The meaning of the signs, in one or two lines, with three blanks between them; the rarer ones only if they occur."""
    shown = {letter for case in board.timed for cell in case.participants for letter in conditions(cell)}
    rarer = [f"{letter} {text}" for letter, text in RARER.items() if letter in shown]
    rarer += [OPEN_LEGEND] * any(cell.is_open for case in board.timed for cell in case.participants)
    return [LEGEND, "   ".join(rarer)] if rarer else [LEGEND]


def status_text(record: Record) -> str:
    """The status word, with xfail for a declared failure, or a note where only the call clock was read."""
    if is_declared(record):
        return f"{record.status.value} (xfail)"
    only_call = record.samples and all(samples.clock == "call" for samples in record.samples)
    return record.status.value + (" (call only)" if only_call else "")


def variant_text(record: Record) -> str:
    return short(record.variant.id) + (f" best of {record.best_of}" if record.best_of > 1 else "")


def resources(record: Record) -> Sequence[int | None]:
    """Registers per thread, stack bytes (spills) and static shared bytes: the most of any of its kernels; None without one."""
    sizes = [(kernel.registers, kernel.stack_bytes, kernel.shared_bytes) for kernel in record.kernels]
    return [max(column) for column in zip(*sizes, strict=True)] or [None] * 3


def error_text(record: Record) -> str:
    """The errors of a right output as a sentence; "" for a roof, and for what is not right."""
    own = record.accuracy
    if own is None:
        return "Error: not measured." if record.status.is_success and record.role != "roof" else ""
    spread = f"largest {own.largest:.3f} of its bound, 99 % up to {own.p99:.3f}, mean {own.bias:+.4f}"
    return f"Error: {spread}, of {plural(own.elements, 'element')}."


def number(value: float | None, form: Callable[[float], str]) -> str:
    return "" if value is None else form(value)


def milliseconds(ns: float) -> str:
    """Four decimals as usual; six below 10 us, where four would leave two digits."""
    return f"{ns / 1e6:.4f}" if ns >= 1e4 else f"{ns / 1e6:.6f}"


def microseconds(ns: float) -> str:
    return f"{ns / 1e3:.2f}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def some(names: Sequence[str], most: int = 2) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def short(name: str, limit: int = NAME_LIMIT) -> str:
    """A name in at most limit characters, cut in the middle, since variants differ at their ends."""
    flat = " ".join(name.split())
    tail = (limit - 1) // 2
    return flat if len(flat) <= limit else f"{flat[: limit - 1 - tail]}…{flat[-tail:]}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def cell_figures(cell: Cell) -> list[str]:
    """The texts of `FIGURES`; "" if unknown."""
    return [
        f"{cell.rank}{rank_mark(cell)}" if cell.rank else OPEN * cell.is_open,
        number(cell.latency_ns, milliseconds),
        interval_text(cell),
        number(cell.bandwidth_gb_s, "{:.0f}".format),
        number(cell.tflop_s, "{:.1f}".format),
        number(cell.percent_of_roof, "{:.1f}".format),
        number(cell.call_ns, microseconds),
        number(cell.device_ns, microseconds),
        number(cell.traffic_factor, "{:.3f}x".format),
        *(number(size, str) for size in resources(cell.record)),
        f"{cell.record.accuracy.largest:.3f}" if cell.record.accuracy else "",
    ]


def interval_text(cell: Cell) -> str:
    """Half-width of the interval in per cent; the number of placements where these are too few for one; "" without a time."""
    half, placements = cell.half_width, cell.placements
    if half is None or not placements:
        return ""
    return f"±{half:.2f} %" if placements > FEW_PLACEMENTS and half <= 100 else plural(placements, "placement")


def baseline_text(board: Board, operator: str = "") -> str:
    """The name of the baseline, with a dagger where it is not ranked."""
    own = [s for s in board.ranking if s.implementation == board.baseline and operator in ("", s.operator)]
    return short(board.baseline) + "†" * any(s.failed_hard for s in own)
