"""Boards as datasets: every cell with all its figures, the standings, and what the boards were made of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, fields

from softbench.analysis.document import Dataset
from softbench.analysis.leaderboard.board import Board, Cell, Standing, is_declared
from softbench.analysis.leaderboard.formatting import resources, unfinished
from softbench.analysis.leaderboard.machines import Machine
from softbench.model import Accuracy, Traffic

COLUMNS = (
    *("case", "operator", "shape", "dtype", "out_dtype", "layout", "distribution", "timed", "role"),
    *("implementation", "variant", "family", "status", "declared", "rank", "mark", "dagger", "best_of"),
    *("tier", "open_because"),
    *("latency_ns", "low_ns", "high_ns", "bandwidth_gb_s", "tflop_s", "percent_of_roof", "speedup", "call_ns"),
    *("device_ns", "cache", "registers", "stack_bytes", "shared_bytes", "traffic_factor", "read_bytes"),
    *("written_bytes", "kernels_ns", "l1_hit_percent", "l2_hit_percent"),
    *("load_sectors", "load_requests", "local_sectors", "bank_conflicts", "warps_percent"),
    *("error_largest", "error_p99", "error_bias", "error_elements", "reason", "notes", "reproduce"),
)
"""Of a cell: docs/records.md says what each is."""
STANDING = (
    *("operator", "implementation", "family", "rank", "score_percent", "score_low", "score_high", "passed", "timed"),
    *("speedup", "speedup_low", "speedup_high", "speedup_cases"),
    *("wins", "ties", "failed_hard", "open_cases", "weighted_ns"),
    *("weighted_speedup", "weighted_low", "weighted_high"),
)


def cells(own: Iterable[Cell]) -> Dataset:
    return Dataset("cells", COLUMNS, tuple(map(_row, own)))


def board_cells(board: Board) -> Dataset:
    return cells(cell for case in board.cases for cell in case.all_cells)


def machine_datasets(machines: Sequence[Machine]) -> Iterator[Dataset]:
    """Cells, standings and the machines themselves; the first column of each names the machine."""
    rows = tuple((own.title, *_row(cell)) for own in machines for case in own.board.cases for cell in case.all_cells)
    yield Dataset("cells", ("machine", *COLUMNS), rows)
    standings = ((machine.title, *_standing(own)) for machine in machines for own in machine.board.ranking)
    yield Dataset("standings", ("machine", *STANDING), tuple(standings))
    header = ("machine", "clock", "baseline", "runs", "cases", "missing_cases", "notes")
    yield Dataset("machines", header, tuple(map(_machine, machines)))


def _machine(machine: Machine) -> tuple[object, ...]:
    board = machine.board
    runs = tuple(passport.run_id for passport in machine.passports)
    notes = tuple(note for note in (unfinished(board), *machine.notes) if note)
    return (machine.title, board.passport.ranking_clock, board.baseline, runs, len(board.cases), board.missing, notes)


def _standing(own: Standing) -> tuple[object, ...]:
    nothing = (None, None, None)
    return (
        *(own.operator, own.implementation, own.family, own.rank, *(astuple(own.scored) if own.scored else nothing)),
        *(own.passed, own.timed, *(astuple(own.sped_up) if own.sped_up else nothing), own.speedup_cases),
        *(own.wins, own.ties, own.failed_hard, own.open_cases, own.weighted_ns),
        *(astuple(own.weighted_speedup) if own.weighted_speedup else nothing),
    )


def _row(cell: Cell) -> tuple[object, ...]:
    record = cell.record
    case, variant = record.case, record.variant
    return (
        *(case.id, case.operator, case.shape, case.dtype, case.out_dtype, case.layout, case.distribution, case.timed),
        *(record.role, variant.implementation, variant.id, variant.family, record.status.value, is_declared(record)),
        *(cell.rank, cell.mark, cell.dagger, record.best_of, record.tier, record.open_because),
        *(cell.latency_ns, cell.low_ns, cell.high_ns, cell.bandwidth_gb_s, cell.tflop_s),
        *(cell.percent_of_roof, cell.speedup, cell.call_ns, cell.device_ns),
        cell.samples[0].cache if cell.samples else "",
        *resources(record),
        cell.traffic_factor,
        *(astuple(record.traffic) if record.traffic else [None] * len(fields(Traffic))),
        *(astuple(record.accuracy) if record.accuracy else [None] * len(fields(Accuracy))),
        *(record.reason, record.notes, record.reproduce),
    )
