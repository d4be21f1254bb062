"""What all parts of a page ask of a run: its board, the numbers of its cells, its slices and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from softbench import texts
from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.model import Passport, Record
from softbench.render.report.figure import Figure
from softbench.render.report.slices import Slice


class Cells:
    """Every cell of a board under one number: entrants, variants that were not chosen, references, roof, case by case.

    implementations are their names, roofs last; a name's place in it is its number, and decides its colour.
    """

    def __init__(self, board: Board) -> None:
        self.all: list[tuple[CaseBoard, Cell]] = [(case, cell) for case in board.cases for cell in _cells_of(case)]
        self._numbers = {id(cell.record): number for number, (_, cell) in enumerate(self.all)}
        roles: dict[str, bool] = {}
        for _, cell in self.all:
            name = cell.record.variant.implementation
            roles[name] = roles.get(name, True) and cell.record.role == "roof"
        self.implementations = sorted(roles, key=lambda name: (roles[name], name))

    def number(self, cell: Cell) -> int:
        return self._numbers[id(cell.record)]


@dataclass(frozen=True)
class Contents:
    """Everything that the panels of a page are made of; figures by key, only those with something to show.

    passports are those of the runs behind the board, the newest last.
    """

    board: Board
    passports: tuple[Passport, ...]
    cells: Cells
    slices: tuple[tuple[str, Slice], ...]
    figures: dict[str, Figure]

    def slices_of(self, operator: str) -> list[tuple[int, Slice]]:
        """(number, slice) of one operator, the whole of it first."""
        return [(number, part) for number, (whose, part) in enumerate(self.slices) if whose == operator]


def _cells_of(case: CaseBoard) -> Iterator[Cell]:
    yield from case.cells.values()
    yield from map(Cell, case.others)
    yield from case.references.values()
    if case.roof:
        yield case.roof


def baselines(board: Board) -> list[str]:
    """Implementations with a time of the ranking clock, the board's own baseline first."""
    clock = board.passport.ranking_clock
    timed = {r.variant.implementation for r in board.records if r.role != "roof" and r.clock(clock) and r.case.timed}
    return sorted(timed, key=lambda name: (name != board.baseline, name))


def peak_gb_s(board: Board) -> float | None:
    """Memory clock x bus width, as the driver gave them; only a GPU has one."""
    peak = board.passport.device.get("peak_gb_s")
    if board.passport.ranking_clock == "wall" or isinstance(peak, bool) or not isinstance(peak, int | float):
        return None
    return float(peak) if 0 < peak < math.inf else None


def repeat_command(record: Record, passport: Passport) -> str:
    """What runs one cell again; records of passes do not say."""
    profile = f"--softbench-profile={','.join(passport.profiles)}" if passport.profiles else ""
    selection = passport.settings.get("selection") or profile
    return record.reproduce or texts.repeat_command(selection, record.case.id, record.variant.implementation)
