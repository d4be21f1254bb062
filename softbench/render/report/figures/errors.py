"""Speed against error: time over that of the roof, and the largest error in units of its bound, case by case."""

from softbench.analysis.leaderboard import Board, CaseBoard
from softbench.analysis.leaderboard.formatting import section_title, sections, shape_text
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Axis, Figure, FigureView, Series
from softbench.render.report.figures.ratio import TIME, points_by_name


def figure(board: Board, cells: Cells) -> Figure:
    """One panel per operator and dtype; a cell without a measured error, or without a roof, is left out."""
    views = [FigureView(section_title(key), _series(cells, cases), key[0]) for key, cases in sections(board).items()]
    return Figure(
        "errors",
        "Speed against error",
        "Time over that of the roof, over the largest error of the output, one point per case; low and left is better.",
        Axis("largest error, 1 is the bound", from_zero=True),
        [TIME],
        [view for view in views if view.series],
        together=True,
    )


def _series(cells: Cells, cases: list[CaseBoard]) -> list[Series]:
    found = []
    for (name, role), points in points_by_name(cases).items():
        known = [
            (case, cells.number(cell), cell.record.accuracy.largest, 100 / share)
            for case, cell in points
            if cell.record.accuracy and (share := cell.percent_of_roof) and role != "roof"
        ]
        if known:
            words, numbers = [shape_text(case.case) for case, *_ in known], [number for _, number, *_ in known]
            errors, ratios = [error for *_, error, _ in known], [float(f"{ratio:.5g}") for *_, ratio in known]
            found.append(Series(name, errors, ratios, words, numbers, role, loose=True))
    return found
