"""Published and measured figures, each as % of the theoretical peak of its own machine."""

from collections.abc import Mapping
from dataclasses import dataclass

from softbench.analysis.leaderboard import Board
from softbench.model import DTYPE_BYTES, Case
from softbench.records.published import PublishedTable
from softbench.render.report.contents import Cells, peak_gb_s
from softbench.render.report.figure import Axis, Figure, FigureView, Series
from softbench.render.report.figures.ratio import points_by_name

PEAKS_GB_S = {"H800": 2619e6 * 2 * 5120 / 8 / 1e9}
"""First words of a published table's GPU, without "NVIDIA" -> memory clock x 2 x bus width / 8 by NVIDIA's data sheets."""
TABLES = {"h800": "float16"}
"""Published tables with times of softmax -> their dtype."""


@dataclass(frozen=True)
class PublishedPoint:
    """One published time of a case."""

    case: Case
    implementation: str
    percent_of_peak: float


def figure(board: Board, cells: Cells, published: Mapping[str, PublishedTable]) -> Figure:
    """One view per published table whose cases this run timed."""
    peak = peak_gb_s(board)
    views = []
    for key, dtype in TABLES.items():
        points = matches(board, published[key], dtype) if key in published else []
        if points and peak is not None:
            gpu = _gpu(published[key])
            views.append(FigureView(f"{gpu}: {published[key].source}", _series(board, cells, points, gpu, peak)))
    return Figure(
        "peers",
        "Published figures",
        "Bandwidth as % of each machine's theoretical peak: what others published for their GPU, and what this run measured.",
        Axis("shape", "words"),
        [Axis("% of the machine's peak", form="percent", from_zero=True)],
        views,
    )


def matches(board: Board, table: PublishedTable, dtype: str) -> list[PublishedPoint]:
    """The published times of cases of this run. Times that are no number, or of an unknown GPU, are left out."""
    peak = next((value for name, value in PEAKS_GB_S.items() if _gpu(table).startswith(name)), None)
    cases = {case.case.id: case.case for case in board.timed if any(cell.samples for cell in case.cells.values())}
    points: dict[tuple[str, str], PublishedPoint] = {}
    for row in table.rows:
        shape = (row.get("rows", "1"), row.get("columns") or row.get("elements", ""))
        case = cases.get(f"softmax-{dtype}-{shape[0]}x{shape[1]}")
        try:
            latency_ns = float(row.get("latency_ms", "")) * 1e6
        except ValueError:
            continue
        if case is not None and peak is not None and latency_ns > 0:
            moved = 2 * case.elements * DTYPE_BYTES[case.dtype]
            point = PublishedPoint(case, row.get("implementation", "?"), 100 * moved / latency_ns / peak)
            points.setdefault((case.id, point.implementation), point)
    return list(points.values())


def _series(board: Board, cells: Cells, points: list[PublishedPoint], gpu: str, peak: float) -> list[Series]:
    wanted = sorted({point.case for point in points}, key=lambda case: (case.columns, case.rows))
    series = []
    for name in dict.fromkeys(point.implementation for point in points):
        own = {point.case: point.percent_of_peak for point in points if point.implementation == name}
        labels = [_label(case) for case in wanted if case in own]
        values = [round(own[case], 1) for case in wanted if case in own]
        series.append(Series(f"{name}, {gpu}", labels, values, labels, [-1] * len(labels), "published", like=name))
    here = [case for case in board.timed if case.case in wanted]
    here.sort(key=lambda case: wanted.index(case.case))
    for (name, role), timed in points_by_name(here).items():
        labels = [_label(case.case) for case, _ in timed]
        values = [round(100 * (cell.bandwidth_gb_s or 0.0) / peak, 1) for _, cell in timed]
        series.append(Series(name, labels, values, labels, [cells.number(cell) for _, cell in timed], role))
    return series


def _label(case: Case) -> str:
    return f"{case.rows} x {case.columns}"


def _gpu(table: PublishedTable) -> str:
    return table.gpu.removeprefix("NVIDIA ").split(", CUDA")[0]
