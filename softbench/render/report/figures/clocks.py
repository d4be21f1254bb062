"""Times by other clocks over those by the ranking clock, case by case."""

from softbench.analysis.leaderboard import Board
from softbench.analysis.leaderboard.formatting import shape_text
from softbench.analysis.leaderboard.inversions import OTHERS
from softbench.analysis.leaderboard.ranks import latency_ns
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Axis, Figure, FigureView, Series
from softbench.render.report.figures.ratio import points_by_name


def figure(board: Board, cells: Cells) -> Figure:
    """One view per clock that was read and does not rank; on the diagonal both agree."""
    ranking = board.passport.ranking_clock
    views = []
    for clock, what in OTHERS.items():
        series = _series(board, cells, clock) if clock != ranking else []
        if series:
            views.append(FigureView(f"{clock}: {what}", series))
    return Figure(
        "clocks",
        "Clocks side by side",
        f"Time by another clock over the time by the {ranking} clock, one point per case; on the diagonal they agree.",
        Axis(f"µs by the {ranking} clock", "log", "us"),
        [Axis("µs by the other clock", "log", "us")],
        views,
        diagonal=True,
    )


def _series(board: Board, cells: Cells, clock: str) -> list[Series]:
    series = []
    for (name, role), points in points_by_name(board.timed).items():
        both = [
            (case, cell, latency_ns(heats), cell.latency_ns)
            for case, cell in points
            if (heats := cell.record.clock(clock)) and cell.latency_ns and role != "roof"
        ]
        if both:
            series.append(
                Series(
                    name,
                    [round(ranked / 1e3, 3) for _, _, _, ranked in both],
                    [round(other / 1e3, 3) for _, _, other, _ in both],
                    [f"{case.case.id} {shape_text(case.case)}" for case, _, _, _ in both],
                    [cells.number(cell) for _, cell, _, _ in both],
                    role,
                    loose=True,
                )
            )
    return series
