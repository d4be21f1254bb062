"""Latency over rows, width by width."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.analysis.leaderboard import Board, CaseBoard
from softbench.analysis.leaderboard.formatting import section_title, sections, shape_text
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Axis, Figure, FigureView, Series
from softbench.render.report.figures.bandwidth import points_by_name


def figure(board: Board, cells: Cells) -> Figure:
    """One view per section and width that was timed with several numbers of rows; the widest range of rows first.

    Operators with flops are left out: their rows say little about the work, and `arithmetic` shows them.
    """
    by_range: list[tuple[float, FigureView]] = []
    for section, all_cases in sections(board).items():
        cases = [case for case in all_cases if not case.flops_a_byte]
        for columns in sorted({case.case.columns for case in cases}):
            same = [case for case in cases if case.case.columns == columns]
            heights = {case.case.rows for case in same if any(cell.latency_ns for cell in case.cells.values())}
            if len(heights) > 1:
                view = FigureView(f"{section_title(section)}, {columns} columns", _series(cells, same))
                by_range.append((max(heights) / max(min(heights), 1), view))
    by_range.sort(key=lambda pair: -pair[0])
    return Figure(
        "latency",
        "Latency over rows",
        "Time of one launch over the number of rows, for one width.",
        Axis("rows", "log", "size"),
        [Axis("µs per launch", "log", "us")],
        [view for _, view in by_range],
    )


def _series(cells: Cells, cases: Sequence[CaseBoard]) -> list[Series]:
    series = []
    for (name, role), points in points_by_name(cases).items():
        points.sort(key=lambda point: point[0].case.rows)
        series.append(
            Series(
                name,
                [case.case.rows for case, _ in points],
                [round((cell.latency_ns or 0.0) / 1e3, 3) for _, cell in points],
                [shape_text(case.case) for case, _ in points],
                [cells.number(cell) for _, cell in points],
                role,
            )
        )
    return series
