"""The figures of the page as plain data: what is drawn, not how. Each is a function of the board."""

from collections.abc import Sequence
from dataclasses import replace

from softbench.analysis.leaderboard import Board
from softbench.records.claims import ClaimFile
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Figure
from softbench.render.report.figures import clocks, drift, errors, peers, ratio

__all__ = ["figures"]


def figures(board: Board, cells: Cells, published: Sequence[ClaimFile]) -> list[Figure]:
    """Those with points, and of their views those with points."""
    drawn = (
        ratio.over_columns(board, cells),
        ratio.by_shape(board, cells),
        clocks.figure(board, cells),
        errors.figure(board, cells),
        peers.figure(board, cells, published),
        drift.figure(board),
    )
    shown = (replace(figure, views=[view for view in figure.views if view.series]) for figure in drawn)
    return [figure for figure in shown if figure.views]
