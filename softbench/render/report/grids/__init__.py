"""Tables of the page that are figures too, as plain data. Each is a function of the board."""

from __future__ import annotations

from softbench.analysis.leaderboard import Board
from softbench.render.report.grid import Grid
from softbench.render.report.grids import correctness, heatmap, ladders

__all__ = ["grids"]


def grids(board: Board) -> list[Grid]:
    """All with cells, in the order of the page."""
    return [grid for grid in (heatmap.grid(board), correctness.grid(board), ladders.grid(board)) if grid.views]
