"""Bandwidth over columns, with the measured roof and the theoretical peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import section_title, sections, shape_text
from softbench.analysis.leaderboard.regimes import FEW, regime
from softbench.model import OPEN, Case
from softbench.render.report.contents import Cells, peak_gb_s
from softbench.render.report.figure import Axis, Figure, FigureView, Series

Point = tuple[CaseBoard, Cell]
X = Callable[[CaseBoard], float]
Y = Callable[[Cell], float | None]


def figure(board: Board, cells: Cells) -> Figure:
    """One view per section (operator, dtypes, layout) of operators that memory limits."""
    views = []
    for section, cases in sections(board).items():
        timed = [case for case in cases if not case.flops_a_byte and any(c.bandwidth_gb_s for c in case.cells.values())]
        if timed:
            views.append(FigureView(section_title(section), _series(cells, timed) + _peak(board, timed)))
    return Figure(
        "bandwidth",
        "Bandwidth over columns",
        "Bandwidth of every implementation over the columns of the matrix, with the measured roof and the peak.",
        Axis("columns", "log", "size"),
        [Axis("GB/s", from_zero=True)],
        views,
    )


def points_by_name(cases: Sequence[CaseBoard]) -> dict[tuple[str, str], list[Point]]:
    """(name, role) -> its cells with a time: entrants by name, open ones, then references, then the roof."""
    points: dict[tuple[str, str], list[Point]] = {}
    for role in ("entrant", OPEN, "reference", "roof"):
        for case in cases:
            for name, cell in _of_role(case, role).items():
                if cell.latency_ns is not None:
                    points.setdefault((name, role), []).append((case, cell))
    entrants = sorted(key for key in points if key[1] == "entrant")
    return {key: points[key] for key in [*entrants, *(key for key in points if key[1] != "entrant")]}


def _of_role(case: CaseBoard, role: str) -> dict[str, Cell]:
    if role == "roof":
        return {"measured roof": case.roof} if case.roof else {}
    if role == "reference":
        return case.references
    return {name: cell for name, cell in case.cells.items() if cell.is_open == (role == OPEN)}


def line_cases(cases: Sequence[CaseBoard]) -> set[Case]:
    """The cases that lines join: the tallest of every width that is a power of two, unless it has few rows.

    A line through both 8191 and 8192, or through a single row at the end, would only show the break. If fewer than two cases
    are left, the tallest of every width.
    """
    tallest = {board.case.columns: board for board in sorted(cases, key=lambda board: board.case.rows)}
    regular = {b.case for width, b in tallest.items() if width & (width - 1) == 0 and regime(b) is not FEW}
    return regular if len(regular) > 1 else {board.case for board in tallest.values()}


def _series(cells: Cells, cases: Sequence[CaseBoard]) -> list[Series]:
    return measured(cells, cases, line_cases(cases), lambda case: case.case.columns, lambda cell: cell.bandwidth_gb_s)


def measured(cells: Cells, cases: Sequence[CaseBoard], joined: set[Case], x: X, y: Y) -> list[Series]:
    """y of every name's cells over x of their cases, in two parts: points that a line joins, and loose points."""
    series = []
    for (name, role), points in points_by_name(cases).items():
        known = sorted((point for point in points if y(point[1])), key=lambda point: x(point[0]))
        for loose in (False, True):
            part = [point for point in known if (point[0].case not in joined) is loose]
            if part:
                across = [x(case) for case, _ in part]
                up = [float(f"{y(cell) or 0.0:.5g}") for _, cell in part]
                keys, numbers = [shape_text(case.case) for case, _ in part], [cells.number(cell) for _, cell in part]
                series.append(Series(name, across, up, keys, numbers, role, loose))
    return series


def _peak(board: Board, cases: Sequence[CaseBoard]) -> list[Series]:
    peak = peak_gb_s(board)
    if peak is None:
        return []
    widths = [case.case.columns for case in cases]
    ends = [float(min(widths)), float(max(widths))]
    return [Series(f"theoretical peak, {peak:.0f} GB/s", ends, [peak, peak], ["", ""], [-1, -1], "peak", markers=False)]
