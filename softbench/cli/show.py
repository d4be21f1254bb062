"""`softbench show`: one cell of a run, down to its samples."""

import difflib
import statistics
from collections.abc import Iterator
from dataclasses import astuple, fields

from softbench.analysis import leaderboard
from softbench.analysis.document import Dataset, Heading, Lines, Part, lines, table
from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.datasets import cells
from softbench.analysis.leaderboard.formatting import FIGURES, cell_figures, error_text, microseconds, number, short, status_text
from softbench.cli.command import FORMAT, REPORTS, RUN, Command, CommandResult, Options, argument, printed, read
from softbench.model import KernelResources, Record, Samples, Telemetry, notes, stats
from softbench.render import tables
from softbench.render.report.contents import repeat_command
from softbench.resources import choose_from
from softbench.texts import InputError


def _run(options: Options) -> CommandResult:
    board = leaderboard.build(read(options, options.run))
    case_id, _, who = _bare(options.cell).partition("::")
    case = _case(board, case_id)
    if not who:
        return printed(options, tables.case_document(board, case.case), [cells(case.all_cells)]), 0
    cell = _cell(case, who)
    return printed(options, list(_document(board, cell)), _datasets(board, cell)), 0


def _bare(cell: str) -> str:
    """A cell without the file that pytest puts before it."""
    first, _, rest = cell.partition("::")
    return rest if first.endswith((".yaml", ".yml")) else cell


def _case(board: Board, case_id: str) -> CaseBoard:
    try:
        return board.find(case_id)
    except KeyError:
        names = [case.case.id for case in board.cases]
        if not names:
            raise InputError(f"{board.passport.run_id} has no cells") from None
        few = difflib.get_close_matches(case_id, names, n=8, cutoff=0.3) or names[:8]
        raise InputError(f"{board.passport.run_id} has no case {case_id!r:.80}; {choose_from(case_id, few)}") from None


def _cell(case: CaseBoard, name: str) -> Cell:
    for cell in case.all_cells:
        if name in (cell.record.variant.implementation, cell.record.variant.id):
            return cell
    known = dict.fromkeys(cell.record.variant.implementation for cell in case.all_cells)
    raise InputError(f"{case.case.id} has no cell of {name!r:.60}; {choose_from(name, known)}")


def _document(board: Board, cell: Cell) -> Iterator[Part]:
    record = cell.record
    variant = record.variant
    yield Heading(f"{record.case.id}::{variant.id}")
    role = "" if record.role == "entrant" else f" ({record.role})"
    declared = f"Declared beforehand: {record.known_failure}" if record.known_failure else ""
    tier = ": ".join(filter(None, [record.tier, record.open_because]))
    source = f"{variant.path}, family {variant.family}, source {variant.source_hash}"
    said = (f"{status_text(record)}{role}", record.reason, tier, declared, variant.summary, source, error_text(record))
    yield from lines(*said, *map(notes.sentence, record.notes))
    for title, own in (("Traceback", record.traceback), ("Kernel output", record.output)):
        yield from (Heading(title), Lines(own, commands=True)) if own else ()
    figures = zip(FIGURES, cell_figures(cell), strict=True)
    yield from table("Figures", ("figure", "value"), [pair for pair in figures if pair[1]], left=(0,))
    for samples in record.samples:
        yield from _samples(samples)
    # Names of 50 characters leave room for the figures in 80 columns.
    kernels = [(short(k.name, 50), str(k.registers), str(k.stack_bytes), str(k.shared_bytes)) for k in record.kernels]
    yield from table("Kernels", ("kernel", "registers", "stack B", "shared B"), kernels)
    yield from _telemetry(record)
    if record.role != "roof":
        yield Heading("Repeat it")
        yield Lines((repeat_command(record, board.passport),), commands=True)


def _datasets(board: Board, cell: Cell) -> Iterator[Dataset]:
    record = cell.record
    yield cells([cell])
    placements = ((own, place, rounds) for own in record.samples for place, rounds in enumerate(own.ns, start=1))
    samples = tuple((own.clock, own.heat, own.cache, own.launches, *rest) for own, *rest in placements)
    yield Dataset("samples", ("clock", "heat", "cache", "launches", "placement", "sample_ns"), samples)
    yield Dataset("kernels", tuple(field.name for field in fields(KernelResources)), tuple(map(astuple, record.kernels)))
    states = tuple((place, *astuple(state)) for place, state in enumerate(record.telemetry, start=1))
    yield Dataset("telemetry", ("placement", *(field.name for field in fields(Telemetry))), states)
    repeat = () if record.role == "roof" else (repeat_command(record, board.passport),)
    texts = {"traceback": record.traceback, "output": record.output, "repeat": repeat}
    yield Dataset("lines", ("of", "line"), tuple((of, line) for of, lines in texts.items() for line in lines))


def _samples(samples: Samples) -> Iterator[Part]:
    low, high = stats.median_interval(samples)
    interval = f"{microseconds(low)} to {microseconds(high)}" if high < 1e15 else "no interval from so few placements"
    median = f"{microseconds(stats.per_launch_ns(samples))} us, {interval}"
    rows = []
    for place, rounds in enumerate(samples.ns, start=1):
        each = [ns / samples.launches for ns in rounds]
        figures = (statistics.median(each), min(each), max(each)) if each else ()
        rows.append((str(place), str(len(each)), *map(microseconds, figures), *[""] * (3 - len(figures))))
    heat = f", heat {samples.heat + 1}" if samples.heat else ""
    cache = f", {samples.cache} L2" if samples.cache else ""
    title = f"Clock {samples.clock}{heat}: {median}; us per launch, {samples.launches} per sample{cache}"
    yield from table(title, ("placement", "rounds", "median", "least", "most"), rows, left=())


def _telemetry(record: Record) -> Iterator[Part]:
    header = ("placement", "SM MHz", "memory MHz", "W", "°C", "throttled by")
    rows = []
    for place, state in enumerate(record.telemetry, start=1):
        values = (state.sm_clock_mhz, state.memory_clock_mhz, state.power_w, state.temperature_c)
        rows.append((str(place), *(number(value, "{:g}".format) for value in values), state.throttle))
    yield from table("Telemetry", header, [row for row in rows if any(row[1:])], left=(5,))


COMMAND = Command(
    "show",
    "show one cell of a run: status, samples, intervals, telemetry, and the command that repeats it",
    (
        ("softbench show softmax-float16-4096x8192::cute_softmax", "a cell of the newest run"),
        ("softbench show CASE::NAME --run RUN", "of another run"),
        ("softbench show CASE", "all cells of one case"),
    ),
    (
        argument("cell", metavar="CELL", help="CASE::NAME, as in pytest; without ::NAME the board of the case"),
        argument("--run", metavar="RUN", default="latest", help=f"{RUN} (default: %(default)s)"),
        FORMAT,
        REPORTS,
    ),
    _run,
)
