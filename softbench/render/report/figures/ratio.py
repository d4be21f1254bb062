"""Time over that of the roof, in small multiples: over columns, and shape by shape for few rows or where flops count."""

from collections.abc import Callable, Sequence

from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import section_title, sections, shape_text, variety
from softbench.analysis.leaderboard.regimes import FEW, regime
from softbench.model import OPEN, Case
from softbench.render.report.contents import Cells
from softbench.render.report.figure import Axis, Figure, FigureView, Series

Point = tuple[str, float | str, float]
"""Key, x and y."""
ALT = "Time of every implementation over that of the roof kernel, case by case; lower is faster, 1 is as fast as the roof."
TIME = Axis("time over the roof", "log", "ratio")


def over_columns(board: Board, cells: Cells) -> Figure:
    """One panel per section (operator, dtypes): cases with many rows."""
    views = []
    for section, cases in sections(board).items():
        many = [case for case in cases if not case.flops_a_byte and regime(case) is not FEW]
        joined = line_cases([case for case in many if not variety(case.case)] or many)
        parts = ((line, [case for case in many if (case.case in joined) is line]) for line in (True, False))
        series = [s for line, part in parts for s in series_by_name(part, cells, _by_columns, loose=not line, along_x=True)]
        views.append(FigureView(section_title(section), series, "one"))
    return _figure("ratio", "Time over the roof", Axis("columns", "log", "size"), views)


def by_shape(board: Board, cells: Cells) -> Figure:
    """One panel per operator and dtype: cases with few rows, and all cases of operators that arithmetic may limit."""
    groups: dict[str, list[CaseBoard]] = {}
    for case in board.timed:
        if case.flops_a_byte or regime(case) is FEW:
            title = section_title((case.case.operator, case.case.dtype, case.case.out_dtype))
            groups.setdefault(title if case.flops_a_byte else f"{title}, {FEW.name}", []).append(case)
    views = []
    for title, cases in groups.items():
        cases.sort(key=lambda case: (case.flops_a_byte, case.case.columns, case.case.rows, case.case.id))
        views.append(FigureView(title, series_by_name(cases, cells, _by_shape), title.partition(",")[0]))
    return _figure("shapes", "Time over the roof, shape by shape", Axis("shape", "words"), views)


def _figure(key: str, title: str, x: Axis, views: list[FigureView]) -> Figure:
    return Figure(key, title, ALT, x, [TIME], views, together=True)


def _by_columns(case: CaseBoard, cell: Cell) -> Point | None:
    return (shape_text(case.case), case.case.columns, over_roof(share)) if (share := cell.percent_of_roof) else None


def _by_shape(case: CaseBoard, cell: Cell) -> Point | None:
    shape = shape_text(case.case)
    return (shape, shape, over_roof(share)) if (share := cell.percent_of_roof) else None


def over_roof(percent: float) -> float:
    return float(f"{100 / percent:.5g}")


def series_by_name(
    cases: Sequence[CaseBoard],
    cells: Cells,
    point: Callable[[CaseBoard, Cell], Point | None],
    loose: bool = True,
    along_x: bool = False,
) -> list[Series]:
    """The points of each name, one per cell that has one, in the order of the cases or of x; none of the roof."""
    found = []
    for (name, role), timed in points_by_name(cases).items():
        known = [(*at, cells.number(cell)) for case, cell in timed if role != "roof" and (at := point(case, cell))]
        if along_x:
            known.sort(key=lambda place: place[1])
        if known:
            keys, x, y, numbers = map(list, zip(*known, strict=True))
            found.append(Series(name, x, y, keys, numbers, role, loose))
    return found


def points_by_name(cases: Sequence[CaseBoard]) -> dict[tuple[str, str], list[tuple[CaseBoard, Cell]]]:
    """(name, role) -> its cells with a time: entrants by name, open ones, then references, then the roof."""
    points: dict[tuple[str, str], list[tuple[CaseBoard, Cell]]] = {}
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
    """The cases that lines join: the tallest of every width that is a power of two.

    A line through both 8191 and 8192 would only show the break. If fewer than two cases are left, the tallest of every width.
    """
    tallest = {board.case.columns: board.case for board in sorted(cases, key=lambda board: board.case.rows)}
    regular = {case for width, case in tallest.items() if width & (width - 1) == 0}
    return regular if len(regular) > 1 else set(tallest.values())
