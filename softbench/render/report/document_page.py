"""Documents as pages: headings, sentences and tables, with the figures after the first sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softbench.analysis.document import Document, Heading, Lines, Part, Table
from softbench.render.report import embed
from softbench.render.report.data import figure_data
from softbench.render.report.drawing.styles import Looks
from softbench.render.report.figure import Figure
from softbench.render.report.html import Markup, copyable, join, panel, row_head, table, tag
from softbench.render.report.page import html_document, theme
from softbench.render.report.panels.blocks import figure

LONG = 40
"""A longer text is wrapped in its column, so that the following columns stay in sight."""


def page(
    title: str, document: Document, figures: Sequence[Figure] = (), families: Mapping[str, str] | None = None
) -> str:
    """The whole document; families by name give the figures the colours of the pages of runs."""
    looks = Looks(families or {})
    # The first sentences are the verdict; the figures follow them.
    first = next((index for index, part in enumerate(document) if isinstance(part, Lines)), -1) + 1
    head = [_part(part, is_verdict=True) for part in document[:first]]
    drawn = [panel(shown.key, shown.title, figure(shown, looks)) for shown in figures]
    rest = [_part(part) for part in document[first:]]
    body = [
        tag("header", theme(), class_="toolbar"),
        tag("main", tag("header", *head), *drawn, *rest, id="main", tabindex="-1"),
        Markup('<dialog id="details" aria-labelledby="details-title"></dialog>'),
        *([embed.plotly_element()] if figures else []),
        embed.data_element(_payload(figures, looks)),
        tag("script", embed.script()),
    ]
    return html_document(title, join(body, "\n"))


def _part(part: Part, is_verdict: bool = False) -> Markup:
    if isinstance(part, Heading):
        return tag("h1" if is_verdict else "h2", tag("bdi", part.text))
    if isinstance(part, Lines):
        if part.commands:
            return join(copyable(line) for line in part.lines)
        return join(tag("p", tag("bdi", line), class_="verdict" if is_verdict else None) for line in part.lines)
    return _table(part)


def _table(part: Table) -> Markup:
    rows = [
        [
            row_head(tag("bdi", text)) if index == 0 else tag("td", tag("bdi", text), class_=_side(part, index))
            for index, text in enumerate(row)
        ]
        for row in part.rows
    ]
    element = table(part.header, rows, left=(0, *part.left), label=part.title)
    if part.folded:
        return tag("details", tag("summary", part.title), element, class_="print-open")
    return tag("section", tag("h2", part.title), element) if part.title else element


def _side(part: Table, index: int) -> str | None:
    if index not in part.left:
        return None
    return "text" if max(len(row[index]) for row in part.rows) > LONG else "label"


def _payload(figures: Sequence[Figure], looks: Looks) -> dict[str, Any]:
    """The data that the script of a page expects, with figures only."""
    return {
        "baseline": "",
        "baselines": [],
        "clock": "",
        "peak": None,
        "implementations": [],
        "cases": [],
        "variants": [],
        "cells": [],
        "slices": [],
        "figures": [figure_data(shown, looks) for shown in figures],
    }
