"""Times by other clocks over those by the ranking clock, case by case."""

from functools import partial

from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import shape_text
from softbench.analysis.leaderboard.inversions import OTHERS
from softbench.analysis.leaderboard.ranks import latency_ns
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Axis, Figure, FigureView
from softbench.render.report.figures.ratio import Point, series_by_name


def figure(board: Board, cells: Cells) -> Figure:
    """One view per clock that was read and does not rank; on the diagonal both agree."""
    ranking = board.passport.ranking_clock
    views = [
        FigureView(f"{clock}: {what}", series_by_name(board.timed, cells, partial(_point, clock)))
        for clock, what in OTHERS.items()
        if clock != ranking
    ]
    return Figure(
        "clocks",
        "Clocks side by side",
        f"Time by another clock over the time by the {ranking} clock, one point per case; on the diagonal they agree.",
        Axis(f"µs by the {ranking} clock", "log", "us"),
        [Axis("µs by the other clock", "log", "us")],
        views,
        diagonal=True,
    )


def _point(clock: str, case: CaseBoard, cell: Cell) -> Point | None:
    heats = cell.record.clock(clock)
    if not heats or not cell.latency_ns:
        return None
    return f"{case.case.id} {shape_text(case.case)}", round(cell.latency_ns / 1e3, 3), round(latency_ns(heats) / 1e3, 3)
