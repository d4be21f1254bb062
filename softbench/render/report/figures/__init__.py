"""The figures of the page as plain data: what is drawn, not how. Each is a function of the board."""

from collections.abc import Sequence

from softbench.analysis.leaderboard import Board
from softbench.records.claims import ClaimFile
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Figure
from softbench.render.report.figures import clocks, drift, errors, peers, ratio

__all__ = ["figures"]


def figures(board: Board, cells: Cells, published: Sequence[ClaimFile]) -> list[Figure]:
    drawn = (
        ratio.over_columns(board, cells),
        ratio.by_shape(board, cells),
        clocks.figure(board, cells),
        errors.figure(board, cells),
        peers.figure(board, cells, published),
        drift.figure(board),
    )
    return [figure for figure in drawn if figure.views]
