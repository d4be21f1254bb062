"""Boards of several machines beside each other, and the one figure that may be read across them: % of roof. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softbench.analysis.leaderboard.board import Board, Cell
from softbench.analysis.leaderboard.formatting import cell_text, conditions, section_title, sections, shape_text
from softbench.model import Passport

ACROSS = (
    "Other machines stand beside each other. Only % of roof may be read across, which each takes against its own roof; "
    "times, bandwidths, ranks and scores hold on one machine."
)


@dataclass(frozen=True)
class Machine:
    """One machine's board among several; the passports and notes say which runs it was made of."""

    title: str
    board: Board
    passports: tuple[Passport, ...]
    notes: tuple[str, ...] = ()


def shares(machines: Sequence[Machine]) -> dict[str, list[list[str]]]:
    """By operator and dtypes: shape, implementation, and its % of roof on every machine, "-" where it was not run.

    Only what at least two machines have of one implementation: from less nothing can be read across.
    """
    found: dict[str, dict[tuple[str, str, str], dict[int, str]]] = {}
    for index, machine in enumerate(machines):
        for section, cases in sections(machine.board).items():
            rows = found.setdefault(section_title(section), {})
            for case in cases:
                for name, cell in case.cells.items():
                    rows.setdefault((case.case.id, shape_text(case.case), name), {})[index] = _share(cell)
    tables = {
        title: [
            [shape, name, *(texts.get(index, "-") for index in range(len(machines)))]
            for (_, shape, name), texts in rows.items()
            if len(texts) > 1
        ]
        for title, rows in found.items()
    }
    return {title: rows for title, rows in tables.items() if rows}


def _share(cell: Cell) -> str:
    if cell.latency_ns is None:
        return cell_text(cell)
    share = "-" if cell.percent_of_roof is None else f"{cell.percent_of_roof:.1f}"
    return " ".join(filter(None, [share, "†" if cell.dagger else "", conditions(cell)]))
