"""Bandwidth over columns as data for plotly.js; the only place that knows plotly."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from softbench.leaderboard import Board, CaseBoard, Cell
from softbench.leaderboard.words import milliseconds, names, section_title, sections, shape_text, short
from softbench.model import Case

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette without black and yellow, which vanish on a dark and on a light page."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
DASHES = ("solid", "dash", "dashdot", "dot")
SMALLEST_SHARE = 0.01
"""Of the elements of the largest case; smaller ones are not joined by lines."""
Figure = dict[str, Any]


def plotly_script() -> str:
    """The source of plotly.js."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def figures(board: Board) -> list[Figure]:
    """One figure a section (operator, dtypes, layout) that has a time: title and traces.

    A colour that starts with "var:" names a colour of the page and is filled in there, light or dark.
    """
    found: list[Figure] = []
    for section, cases in sections(board).items():
        timed = [case for case in cases if any(cell.bandwidth_gb_s for cell in case.cells.values())]
        if timed:
            found.append({"title": section_title(section), "traces": _traces(board, section[0], timed)})
    return found


def _traces(board: Board, operator: str, cases: Sequence[CaseBoard]) -> list[Figure]:
    entrants = sorted(names(board, operator, board.timed))  # one colour an implementation, whatever its rank
    line = _line_cases(cases)
    traces: list[Figure] = []
    for index, name in enumerate(entrants):
        style = {
            "colour": COLOURS[index % len(COLOURS)],
            "symbol": SYMBOLS[index % len(SYMBOLS)] + ("-open" if index // len(SYMBOLS) % 2 else ""),
            "dash": DASHES[index // len(COLOURS) % len(DASHES)],
        }
        traces += _series(short(name), [(case, case.cells[name]) for case in cases if name in case.cells], line, style)
    neutral = {"colour": "var:--muted", "symbol": "line-ew-open", "dash": "dot"}
    for name in dict.fromkeys(name for case in cases for name in case.references):
        points = [(case, case.references[name]) for case in cases if name in case.references]
        traces += _series(f"{short(name)} (reference)", points, line, neutral)
    roof = {"colour": "var:--ink", "symbol": "line-ew-open", "dash": "dash"}
    traces += _series("measured roof", [(case, case.roof) for case in cases if case.roof], line, roof)
    return traces + _peak(board, cases)


def _line_cases(cases: Sequence[CaseBoard]) -> set[Case]:
    """The cases that lines run through: of every width that is a power of two the tallest, unless it is tiny.

    A line through 8191 beside 8192, or through a single row at the end, would show nothing but the break. Where
    fewer than two cases are left, the tallest of every width.
    """
    tallest = {board.case.columns: board.case for board in sorted(cases, key=lambda board: board.case.rows)}
    largest = max(case.elements for case in tallest.values())
    regular = {
        case
        for columns, case in tallest.items()
        if columns & (columns - 1) == 0 and case.elements >= SMALLEST_SHARE * largest
    }
    return regular if len(regular) > 1 else set(tallest.values())


def _series(
    name: str, points: Sequence[tuple[CaseBoard, Cell]], line_cases: set[Case], style: dict[str, str]
) -> list[Figure]:
    """One trace for the line and one for the loose points; the first of them stands in the legend."""
    timed = sorted((point for point in points if point[1].bandwidth_gb_s), key=lambda point: point[0].case.columns)
    line = [point for point in timed if point[0].case in line_cases]
    loose = [point for point in timed if point[0].case not in line_cases]
    traces = [_trace(name, line, style, mode="lines+markers", size=7, opacity=1.0)] if line else []
    traces += [_trace(name, loose, style, mode="markers", size=6, opacity=0.55)] if loose else []
    return [{**trace, "showlegend": index == 0} for index, trace in enumerate(traces)]


def _trace(
    name: str, points: Sequence[tuple[CaseBoard, Cell]], style: dict[str, str], mode: str, size: int, opacity: float
) -> Figure:
    return {
        "name": html.escape(name),
        "legendgroup": html.escape(name),
        "mode": mode,
        "opacity": opacity,
        "x": [case.case.columns for case, _ in points],
        "y": [round(cell.bandwidth_gb_s or 0.0, 2) for _, cell in points],
        "text": [_hover(case, cell) for case, cell in points],
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
        "line": {"color": style["colour"], "dash": style["dash"], "width": 2},
        "marker": {"color": style["colour"], "symbol": style["symbol"], "size": size},
    }


def _hover(case: CaseBoard, cell: Cell) -> str:
    roof = "" if cell.percent_of_roof is None else f", {cell.percent_of_roof:.1f} % of roof"
    time = "" if cell.latency_ns is None else f"{milliseconds(cell.latency_ns)} ms"
    return f"{shape_text(case.case)}<br>{cell.bandwidth_gb_s or 0.0:.0f} GB/s, {time}{roof}"


def _peak(board: Board, cases: Sequence[CaseBoard]) -> list[Figure]:
    """Clock x bus width as a level line; only a GPU has one."""
    peak = board.passport.device.get("peak_gb_s")
    if board.passport.ranking_clock == "wall" or not isinstance(peak, int | float) or peak <= 0:
        return []
    widths = [case.case.columns for case in cases]
    return [
        {
            "name": f"theoretical peak, {peak:.0f} GB/s",
            "mode": "lines",
            "x": [min(widths), max(widths)],
            "y": [peak, peak],
            "hoverinfo": "name",
            "line": {"color": "var:--muted", "dash": "dot", "width": 1.5},
        }
    ]
