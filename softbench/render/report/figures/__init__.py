"""The figures of the page as plain data: what is drawn, not how. Each is a function of the board."""

from __future__ import annotations

from collections.abc import Mapping

from softbench.analysis.leaderboard import Board
from softbench.records.published import PublishedTable
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Figure
from softbench.render.report.figures import arithmetic, bandwidth, clocks, drift, latency, peers, profile

__all__ = ["figures"]


def figures(board: Board, cells: Cells, published: Mapping[str, PublishedTable]) -> list[Figure]:
    """All figures with points, in the order of the page."""
    drawn = (
        bandwidth.figure(board, cells),
        arithmetic.figure(board, cells),
        latency.figure(board, cells),
        profile.figure(board),
        clocks.figure(board, cells),
        peers.figure(board, cells, published),
        drift.figure(board),
    )
    return [figure for figure in drawn if figure.views]
