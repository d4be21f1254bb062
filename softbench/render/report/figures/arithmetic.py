"""TFLOP/s over flops per byte, for operators that arithmetic may limit: the roofline, with the roof as measured."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.analysis.leaderboard import Board, CaseBoard
from softbench.analysis.leaderboard.formatting import section_title, sections
from softbench.model import Case
from softbench.render.report.contents import Cells, peak_gb_s
from softbench.render.report.figure import Axis, Figure, FigureView, Series
from softbench.render.report.figures.bandwidth import measured


def figure(board: Board, cells: Cells) -> Figure:
    """One view per section (operator, dtypes, layout) and width."""
    views = []
    for section, cases in sections(board).items():
        for columns in sorted({case.case.columns for case in cases}):
            timed = [case for case in cases if case.case.columns == columns and _has_flops(case)]
            if timed:
                label = f"{section_title(section)}, {columns} columns"
                views.append(FigureView(label, _series(cells, timed) + _slope(board, timed)))
    return Figure(
        "arithmetic",
        "Arithmetic over flops per byte",
        "TFLOP/s of every implementation over the flops per byte of its cases, with the measured roof and what memory allows.",
        Axis("flops per byte", "log", "size"),
        [Axis("TFLOP/s", "log")],
        views,
    )


def _has_flops(case: CaseBoard) -> bool:
    return case.flops_a_byte > 0 and any(cell.tflop_s for cell in case.cells.values())


def _series(cells: Cells, cases: Sequence[CaseBoard]) -> list[Series]:
    joined = _line_cases(cases)
    return measured(cells, cases, joined, lambda case: float(f"{case.flops_a_byte:.5g}"), lambda cell: cell.tflop_s)


def _line_cases(cases: Sequence[CaseBoard]) -> set[Case]:
    """The cases that lines join: the largest of those with the same flops per byte."""
    largest = {case.flops_a_byte: case.case for case in sorted(cases, key=lambda case: case.case.elements)}
    return set(largest.values())


def _slope(board: Board, cases: Sequence[CaseBoard]) -> list[Series]:
    """What the theoretical peak of the memory allows, up to the highest measured roof."""
    peak = peak_gb_s(board)
    highest = max((case.roof.tflop_s or 0.0 for case in cases if case.roof), default=0.0)
    first = min(case.flops_a_byte for case in cases)
    if peak is None or highest <= first * peak / 1e3:
        return []
    ends = [first, highest * 1e3 / peak]
    heights = [float(f"{x * peak / 1e3:.5g}") for x in ends]
    name = f"memory peak, {peak:.0f} GB/s"
    return [Series(name, [float(f"{x:.5g}") for x in ends], heights, ["", ""], [-1, -1], "peak", markers=False)]
