"""Timed cases by implementation: % of roof, or with a script the figure that the reader chooses."""

from collections.abc import Sequence

from softbench.analysis.leaderboard import CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import (
    SectionKey,
    legend,
    milliseconds,
    resources,
    roof_note,
    section_title,
    sections,
    shape_head,
    signs,
    status_text,
)
from softbench.analysis.leaderboard.regimes import regime
from softbench.model import OPEN
from softbench.render.report.contents import SIGNS, Contents, kind
from softbench.render.report.html import EMPTY, Markup, breakable, join, name, panel, row_head, table, tag
from softbench.render.report.panels.blocks import filter_box, key
from softbench.render.report.tinted import MATRICES, cell_at, columns, rows, tint, with_figures

LEAD = (
    "Every timed case; the deeper the tint, the better, and orange is slower than the baseline. Above 100 % of the roof: "
    "faster than the best plain copy that was tried. "
    "A cell opens its details: samples, intervals, how to repeat it."
)


def heatmap(contents: Contents) -> Markup:
    found = sections(contents.board).items()
    tables = [join([tag("h3", tag("bdi", section_title(key))), _table(contents, key, cases)]) for key, cases in found]
    if not tables:
        return EMPTY
    rows_filter = filter_box("rows", "filter rows: words of dtype, regime, shape")
    meanings = tag("p", "   ".join(legend(contents.board)).replace("   ", " · "), class_="note")
    steps = (tag("span", f"{at} %", style=f"--heat:{tint(at):.2f}", class_="tint") for at in (50, 70, 80, 90, 95, 100))
    tints = tag("p", "tint: ", *steps, class_="note", id="tints")
    return panel("heatmap", "Heat map", _controls(contents), rows_filter, meanings, tints, *tables, lead=LEAD)


def _controls(contents: Contents) -> Markup:
    shown = with_figures(contents.board)
    if len(shown) < 2:
        return EMPTY
    choices = (
        tag("label", Markup(f'<input type="radio" name="metric" value="{key}"{" checked" * (number == 0)}>'), measure.label)
        for number, (key, measure) in enumerate(shown.items())
    )
    return tag("fieldset", tag("legend", "show"), *choices, class_="switch needs-script", id="metric")


def _table(contents: Contents, section: SectionKey, cases: Sequence[CaseBoard]) -> Markup:
    places = columns(contents.board, section, cases)
    header = [shape_head(cases, MATRICES), *(_head(contents, cases, *place) for place in places)]
    body = []
    for case, text in rows(cases):
        title = row_head(name(text, 60), tag("small", regime(case).name), title=case.case.id)
        body.append([title, *(_cell(contents, cell_at(case, place)) for place in places)])
    label = f"{section_title(section)}: timed cases by implementation"
    return table(header, body, label=label, class_="heat", data_grid="", data_sort="")


def _head(contents: Contents, cases: Sequence[CaseBoard], text: str, role: str) -> Markup:
    if role == "roof":
        return join(["roof", tag("small", roof_note(cases))])
    kind_of = tag("small", "reference") if role == "reference" else None
    return join([key(contents.cells.looks, text), breakable(text, 16), kind_of])


def _cell(contents: Contents, cell: Cell | None) -> Markup:
    if cell is None:
        return tag("td", "not run", class_="none")
    number = contents.cells.number(cell)
    if cell.latency_ns is None:
        what = kind(cell.record)
        registers = resources(cell.record)[0]
        status = status_text(cell.record).lower().replace("_", " ") + ("" if registers is None else f", {registers} regs")
        word = tag("span", f"{SIGNS[what]} {status}")
        return tag("td", word, class_=f"none {what}", data_cell=number)
    share = cell.percent_of_roof
    text = f"{milliseconds(cell.latency_ns)} ms" if share is None else f"{share:.1f}"
    return tag(
        "td",
        text,
        tag("i", signs(cell), style="width:auto" if cell.is_open else None),
        class_="won" if cell.is_winner else None,
        style=None if share is None else f"--heat:{tint(share):.2f}",
        title=f"{OPEN}: {cell.record.open_because}" if cell.is_open else None,
        data_cell=number,
    )
