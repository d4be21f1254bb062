"""Performance profile: the share of cases in which an implementation is within a factor of the best there.

Dolan and Moré, "Benchmarking optimization software with performance profiles", 2002.
"""

from __future__ import annotations

from softbench.analysis.leaderboard import Board
from softbench.analysis.leaderboard.tiers import scored_of
from softbench.render.report.figure import Axis, Figure, FigureView, Series

LAST_FACTOR = 8.0
STEPS = 120
LISTED = (1.0, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, LAST_FACTOR)
"""Factors in the table of the figure."""


def figure(board: Board) -> Figure:
    """One view per operator. A case without a pass that counts is within no factor."""
    views = [view for operator in board.operators if (view := _view(board, operator)) is not None]
    return Figure(
        "profile",
        "How often how close to the best",
        "Share of the timed cases in which an implementation takes at most a given multiple of the fastest one's time.",
        Axis("at most this many times the fastest's time", "log", "factor"),
        [Axis("share of cases", form="percent", from_zero=True)],
        views,
        steps=True,
    )


def _view(board: Board, operator: str) -> FigureView | None:
    ratios: dict[str, list[float]] = {}
    cases = scored_of(board, operator)
    for case in cases:
        ranked = {name: cell for name, cell in case.cells.items() if not cell.is_open}
        times = {name: cell.latency_ns for name, cell in ranked.items() if cell.latency_ns is not None}
        for name, latency in times.items():
            ratios.setdefault(name, []).append(latency / min(times.values()))
    if len(ratios) < 2:
        return None
    grid = sorted({*LISTED, *(LAST_FACTOR ** (step / STEPS) for step in range(STEPS + 1))})
    keys = [f"within {factor:g}x" if factor in LISTED else "" for factor in grid]
    series = []
    for name in sorted(ratios):
        shares = [round(100 * sum(ratio <= factor for ratio in ratios[name]) / len(cases), 1) for factor in grid]
        series.append(Series(name, [round(factor, 4) for factor in grid], shares, keys, [-1] * len(grid)))
    return FigureView(operator, series)
