"""Hard cases by implementation: a sign and a word per cell; cases that somebody fails come first."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.render.report.contents import SIGNS, kind
from softbench.render.report.grid import Block, Column, Grid, GridView, Row, Tile, labels, paged

WORDS = {"right": "right", "failed": "failed", "declared": "xfail", "refused": "refused"}


def grid(board: Board) -> Grid:
    """One view per page."""
    pages = paged([block for operator in board.operators for block in _blocks(board, operator)])
    views = tuple(GridView(label, page) for page, label in zip(pages, labels(pages), strict=True))
    return Grid(
        "correctness", "Hard cases", "Hard cases, one row each, by implementation: who is right in which.", views
    )


def parted(board: Board, operator: str) -> tuple[list[CaseBoard], list[CaseBoard]]:
    """The hard cases of an operator: those that somebody fails, and the others."""
    cases = [case for case in board.cases if case.case.operator == operator and not case.case.timed]
    bad = [case for case in cases if any(cell.status.is_failure for cell in case.cells.values())]
    return bad, [case for case in cases if case not in bad]


def columns(board: Board, operator: str, cases: Sequence[CaseBoard]) -> list[str]:
    names = [standing.implementation for standing in board.standings(operator)]
    return [who for who in names if any(who in case.cells for case in cases)]


def _blocks(board: Board, operator: str) -> list[Block]:
    blocks = []
    for title, cases in zip(("somebody fails", "nobody fails"), parted(board, operator), strict=True):
        names = columns(board, operator, cases)
        rows = tuple(Row(case.case.id, tuple(_tile(case.cells.get(who)) for who in names)) for case in cases)
        heads = tuple(Column(who, of=who) for who in names)
        blocks += [Block(f"{operator}, {title}", "case", heads, rows)] if rows else []
    return blocks


def _tile(cell: Cell | None) -> Tile | None:
    if cell is None:
        return None
    what = kind(cell.record)
    return Tile(f"{SIGNS[what]} {WORDS[what]}", tone=what)
