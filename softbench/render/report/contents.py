"""The contents of a page: the board of a run, the numbers of its cells, its slices and figures."""

import math
from dataclasses import dataclass

from softbench import texts
from softbench.analysis.leaderboard import Board, CaseBoard, Cell, is_declared
from softbench.model import Passport, Record
from softbench.render.report.drawing.styles import Looks
from softbench.render.report.figure import Figure
from softbench.render.report.slices import Slice

SIGNS = {"right": "✓", "failed": "✗", "declared": "✗", "refused": "–"}
"""By `kind`: the sign of a status, for readers who do not see its colour."""
COLOURED = 8
"""How many of an operator's implementations have a colour: the best; others are grey."""


class Cells:
    """Every cell of a board with its number: case by case, in the order of `CaseBoard.all_cells`.

    implementations are their names, roofs last; the place of a name is its number. looks are those of their names.
    """

    def __init__(self, board: Board) -> None:
        self.all: list[tuple[CaseBoard, Cell]] = [(case, cell) for case in board.cases for cell in case.all_cells]
        self._numbers = {id(cell.record): number for number, (_, cell) in enumerate(self.all)}
        records = [cell.record for _, cell in self.all]
        families = {record.variant.implementation: record.variant.family for record in records}
        others = {record.variant.implementation for record in records if record.role != "roof"}
        self.implementations = sorted(families, key=lambda name: (name not in others, name))
        first = {s.implementation for name in board.operators for s in board.standings(name)[:COLOURED]}
        self.looks = Looks(families, frozenset(families) - first)

    def number(self, cell: Cell) -> int:
        return self._numbers[id(cell.record)]


@dataclass(frozen=True)
class Contents:
    """Everything that the panels of a page need; figures by key, only those with points.

    passports are those of the runs of the board, the newest last.
    """

    board: Board
    passports: tuple[Passport, ...]
    cells: Cells
    slices: tuple[Slice, ...]
    figures: dict[str, Figure]

    def slices_of(self, operator: str) -> list[int]:
        """The numbers of the slices of one operator, the whole of it first."""
        return [number for number, part in enumerate(self.slices) if part.operator == operator]


def baselines(board: Board) -> list[str]:
    """Implementations with a time of the ranking clock: the board's baseline first, those without one that counts last."""
    clock = board.passport.ranking_clock
    timed = {r.variant.implementation for r in board.records if r.role != "roof" and r.clock(clock) and r.case.timed}
    cells = (pair for case in board.timed for pair in case.by_implementation.items())
    counted = {name for name, cell in cells if cell.samples and not cell.is_open}
    return sorted(timed, key=lambda name: (name != board.baseline, name not in counted, name))


def peak_gb_s(board: Board) -> float | None:
    """Memory clock x bus width by the driver; None without a GPU."""
    peak = board.passport.device.get("peak_gb_s")
    if board.passport.ranking_clock == "wall" or isinstance(peak, bool) or not isinstance(peak, int | float):
        return None
    return float(peak) if 0 < peak < math.inf else None


def origin(passport: Passport) -> str:
    """What a picture that leaves the page says of where it is from: the GPU and the run."""
    return f"{passport.device.get('name', 'an unknown machine')} · run {passport.run_id}"


def repeat_command(record: Record, passport: Passport) -> str:
    """The command that repeats a cell; the records of passes do not hold one."""
    profile = f"--softbench-profile={','.join(passport.profiles)}" if passport.profiles else ""
    selection = passport.settings.get("selection") or profile
    return record.reproduce or texts.repeat_command(selection, record.case.id, record.variant.implementation)


def kind(record: Record) -> str:
    """The outcome of a record, which decides its colour and its sign."""
    if is_declared(record):
        return "declared"
    return "failed" if record.status.is_failure else "refused" if record.status.is_refusal else "right"
