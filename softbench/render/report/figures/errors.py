"""Speed against error: time over that of the roof, and the largest error in units of its bound, case by case."""

from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import section_title, sections, shape_text
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Axis, Figure, FigureView
from softbench.render.report.figures.ratio import TIME, Point, over_roof, series_by_name


def figure(board: Board, cells: Cells) -> Figure:
    """One panel per operator and dtype; a cell without a measured error, or without a roof, is left out."""
    views = [FigureView(section_title(key), series_by_name(cases, cells, _point), key[0]) for key, cases in sections(board).items()]
    return Figure(
        "errors",
        "Speed against error",
        "Time over that of the roof, over the largest error of the output, one point per case; low and left is better.",
        Axis("largest error, 1 is the bound", from_zero=True),
        [TIME],
        views,
        together=True,
    )


def _point(case: CaseBoard, cell: Cell) -> Point | None:
    share, accuracy = cell.percent_of_roof, cell.record.accuracy
    return (shape_text(case.case), accuracy.largest, over_roof(share)) if accuracy and share else None
