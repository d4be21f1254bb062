"""Published and measured figures, each as % of the theoretical peak of its own machine."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from softbench.analysis.leaderboard import Board
from softbench.model import DTYPE_BYTES, Case
from softbench.records.claims import ClaimFile
from softbench.render.report.contents import Cells, peak_gb_s
from softbench.render.report.figure import Axis, Figure, FigureView, Series
from softbench.render.report.figures.ratio import points_by_name

PEAKS_GB_S = {"H800": 2619e6 * 2 * 5120 / 8 / 1e9}
"""First words of the GPU of published figures, without "NVIDIA" -> memory clock x 2 x bus width / 8 by NVIDIA's data sheets."""


@dataclass(frozen=True)
class PublishedPoint:
    case: Case
    implementation: str
    percent_of_peak: float


def figure(board: Board, cells: Cells, published: Sequence[ClaimFile]) -> Figure:
    """One view per source with times of cases that this run timed."""
    views = []
    if peak := peak_gb_s(board):
        views = [FigureView(f"{_gpu(own)}: {own.source}", _series(board, cells, own, peak)) for own in published]
    return Figure(
        "peers",
        "Published figures",
        "Bandwidth as % of each machine's theoretical peak: what others published for their GPU, and what this run measured.",
        Axis("shape", "words"),
        [Axis("% of the machine's peak", form="percent", from_zero=True)],
        views,
    )


def matches(board: Board, published: ClaimFile) -> list[PublishedPoint]:
    """The published times of cases of this run. What is no time in ms, or of an unknown GPU, is left out."""
    peak = next((value for name, value in PEAKS_GB_S.items() if _gpu(published).startswith(name)), None)
    cases = {case.case.id: case.case for case in board.timed if any(cell.samples for cell in case.cells.values())}
    points = []
    for case_id, row in published.figures.items():
        for name, text in row.items():
            case, ms = cases.get(case_id), re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ms", text)
            if case is not None and peak is not None and ms and float(ms[1]):
                moved = 2 * case.elements * DTYPE_BYTES[case.dtype]
                points.append(PublishedPoint(case, name, 100 * moved / float(ms[1]) / 1e6 / peak))
    return points


def _series(board: Board, cells: Cells, published: ClaimFile, peak: float) -> list[Series]:
    points = matches(board, published)
    series = []
    for name in dict.fromkeys(point.implementation for point in points):
        own = sorted((point for point in points if point.implementation == name), key=lambda point: _size(point.case))
        labels = [_label(point.case) for point in own]
        values = [round(point.percent_of_peak, 1) for point in own]
        series.append(Series(f"{name}, {_gpu(published)}", labels, values, labels, [-1] * len(labels), "published", like=name))
    wanted = {point.case for point in points}
    here = sorted((case for case in board.timed if case.case in wanted), key=lambda case: _size(case.case))
    for (name, role), timed in points_by_name(here).items():
        labels = [_label(case.case) for case, _ in timed]
        values = [round(100 * (cell.bandwidth_gb_s or 0.0) / peak, 1) for _, cell in timed]
        series.append(Series(name, labels, values, labels, [cells.number(cell) for _, cell in timed], role))
    return series


def _size(case: Case) -> tuple[int, int]:
    return case.columns, case.rows


def _label(case: Case) -> str:
    return f"{case.rows} x {case.columns}"


def _gpu(published: ClaimFile) -> str:
    return published.gpu.removeprefix("NVIDIA ").split(", CUDA")[0]
