"""Boards of several machines, and the one figure that may be compared between them: % of roof."""

from collections.abc import Sequence
from dataclasses import dataclass

from softbench.analysis.leaderboard.board import Board, Cell
from softbench.analysis.leaderboard.formatting import cell_text, conditions, section_title, sections, shape_text
from softbench.model import OPEN, Passport

ACROSS = (
    "Each machine has a board of its own. Only % of roof may be compared between them, as each is relative to the machine's own "
    "roof; times, bandwidths, ranks and scores hold on one machine."
)


@dataclass(frozen=True)
class Machine:
    """The board of one machine; passports and notes say which runs it was made of."""

    title: str
    board: Board
    passports: tuple[Passport, ...]
    notes: tuple[str, ...] = ()


def shares(machines: Sequence[Machine]) -> dict[str, list[list[str]]]:
    """By operator and dtypes: shape, implementation, and its % of roof on each machine, "-" where it was not run.

    Rows that only one machine has are left out: there is nothing to compare.
    """
    by_title: dict[str, dict[tuple[str, str, str], dict[int, str]]] = {}
    for index, machine in enumerate(machines):
        for section, cases in sections(machine.board).items():
            rows = by_title.setdefault(section_title(section), {})
            for case in cases:
                for name, cell in case.cells.items():
                    rows.setdefault((case.case.id, shape_text(case.case), name), {})[index] = _share(cell)
    tables = {
        title: [
            [shape, name, *(texts.get(index, "-") for index in range(len(machines)))]
            for (_, shape, name), texts in rows.items()
            if len(texts) > 1
        ]
        for title, rows in by_title.items()
    }
    return {title: rows for title, rows in tables.items() if rows}


def _share(cell: Cell) -> str:
    if cell.latency_ns is None:
        return cell_text(cell)
    share = "-" if cell.percent_of_roof is None else f"{cell.percent_of_roof:.1f}"
    return " ".join(filter(None, [share, "†" * cell.dagger, OPEN * cell.is_open, conditions(cell)]))
