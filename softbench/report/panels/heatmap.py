"""Timed cases by implementation. Without a script % of roof stands there; with one the reader chooses the figure."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.leaderboard import CaseBoard, Cell
from softbench.leaderboard.regimes import REGIMES, regime
from softbench.leaderboard.words import (
    Section,
    conditions,
    legend,
    milliseconds,
    names,
    resources,
    section_title,
    sections,
    shape_text,
    status_text,
)
from softbench.report.data import kind, mark
from softbench.report.html import EMPTY, Markup, breakable, frame, join, panel, row_head, tag
from softbench.report.index import Contents, baselines
from softbench.report.panels.blocks import SIGNS

METRICS = {
    "roof": "% of roof",
    "ms": "latency, ms",
    "gbs": "GB/s",
    "speedup": "speed-up",
    "traffic": "traffic factor",
}
LEAD = (
    "Every timed case; the deeper the tint, the better. A cell opens its details: samples, intervals, how to repeat it."
)


def heatmap(contents: Contents) -> Markup:
    found = sections(contents.board)
    tables = [
        join([tag("h3", tag("bdi", section_title(section))), _table(contents, section, cases)])
        for section, cases in found.items()
    ]
    signs_told = tag("p", " · ".join("   ".join(legend(contents.board)).split("   ")), class_="note")
    return panel("heatmap", "Heat map", *([_controls(contents), signs_told] if tables else []), *tables, lead=LEAD)


def _controls(contents: Contents) -> Markup:
    """The switch, for the metrics of which there is a figure."""
    cells = [cell for case in contents.board.timed for cell in case.cells.values()]
    has = {
        "roof": any(cell.percent_of_roof is not None for cell in cells),
        "ms": any(cell.latency_ns for cell in cells),
        "gbs": any(cell.bandwidth_gb_s for cell in cells),
        "speedup": len(baselines(contents.board)) > 1,
        "traffic": any(cell.traffic_factor is not None for cell in cells),
    }
    shown = [key for key in METRICS if has[key]]
    if len(shown) < 2:
        return EMPTY
    choices = (
        tag(
            "label",
            Markup(f'<input type="radio" name="metric" value="{key}"{" checked" * (key == shown[0])}>'),
            METRICS[key],
        )
        for key in shown
    )
    return tag("fieldset", tag("legend", "show"), *choices, class_="switch needs-script", id="metric")


def _table(contents: Contents, section: Section, cases: Sequence[CaseBoard]) -> Markup:
    entrants = names(contents.board, section[0], cases)
    references = list(dict.fromkeys(who for case in cases for who in case.references))
    columns = [tag("th", _who(contents, text), scope="col") for text in entrants]
    columns += [tag("th", _who(contents, text), tag("small", "reference"), scope="col") for text in references]
    has_roof = any(case.roof for case in cases)
    columns += [tag("th", "roof", tag("small", "a copy"), scope="col")] if has_roof else []
    head = tag("tr", tag("th", "[rows, columns]", scope="col", class_="label"), *columns)
    rows = []
    for case in sorted(cases, key=_place):
        head_cell = row_head(shape_text(case.case), tag("small", regime(case).name), title=case.case.id)
        found = [case.cells.get(text) for text in entrants] + [case.references.get(text) for text in references]
        found += [case.roof] if has_roof else []
        rows.append(tag("tr", head_cell, *(_cell(contents, cell) for cell in found)))
    label = f"{section_title(section)}: timed cases by implementation"
    body = tag("tbody", join(rows, "\n"))
    return frame(tag("table", tag("thead", head), body, aria_label=label, class_="heat", data_grid=""), label)


def _place(board: CaseBoard) -> tuple[int, int, int, str]:
    return REGIMES.index(regime(board)), board.case.columns, board.case.rows, board.case.id


def _who(contents: Contents, text: str) -> Markup:
    return join([tag("i", class_="key", data_impl=contents.cells.implementations.index(text)), breakable(text, 16)])


def _cell(contents: Contents, cell: Cell | None) -> Markup:
    if cell is None:
        return tag("td", "not run", class_="none")
    number = contents.cells.number(cell)
    if cell.latency_ns is None:
        what = kind(cell.record)
        registers = resources(cell.record)[0]
        said = status_text(cell.record).lower().replace("_", " ") + (f", {registers} regs" if registers else "")
        word = tag("span", f"{SIGNS[what]} {said}")
        return tag("td", word, class_=f"none {what}", data_cell=number)
    share = cell.percent_of_roof
    text = f"{milliseconds(cell.latency_ns)} ms" if share is None else f"{share:.1f}"
    return tag(
        "td",
        text,
        signs(cell),
        class_="won" if cell.is_winner else None,
        style=None if share is None else f"--heat:{tint(share):.2f}",
        data_cell=number,
    )


def signs(cell: Cell) -> Markup:
    """Mark and conditions, in a place of their own width, so that figures stay aligned."""
    return tag("i", mark(cell), conditions(cell))


def tint(share: float) -> float:
    """0 to 1 for 50 to 100 %, steep near the top, where kernels differ."""
    return float(min(max((share - 50) / 50, 0.0), 1.0) ** 2)
