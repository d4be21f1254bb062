"""The page as a whole: head, toolbar, panels in reading order, scripts."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from softbench.analysis.leaderboard import Board
from softbench.model import Passport
from softbench.records.claims import ClaimFile
from softbench.render.report import data, embed
from softbench.render.report.contents import Cells, Contents, baselines, origin
from softbench.render.report.figures import figures
from softbench.render.report.glossary import explained
from softbench.render.report.html import Markup, join, tag
from softbench.render.report.panels import cells, charts, clocks, correctness, heatmap, ladders, losses, passport, ranking
from softbench.render.report.panels.header import header, title
from softbench.render.report.slices import slices

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""Forbids all requests, so that a page sends nothing to anybody."""
PANELS: dict[str, tuple[str, Callable[[Contents], Markup]]] = {
    "ranking": ("Ranking", ranking.ranking),
    "ratio": ("Roof", charts.chart("ratio", "shapes")),
    "losses": ("Losses", losses.lost),
    "heatmap": ("Heat map", heatmap.heatmap),
    "clocks": ("Clocks", clocks.clocks),
    "correctness": ("Correctness", correctness.correctness),
    "errors": ("Errors", charts.chart("errors")),
    "peers": ("Published", charts.chart("peers")),
    "ladders": ("Ladders", ladders.panel_of_ladders),
    "drift": ("Drift", charts.chart("drift")),
    "passport": ("Repeat, compare", passport.passport),
    "cells": ("Every cell", cells.cells),
}
"""The id of a panel -> its word in the toolbar, and the function that makes it; in reading order."""


def page(board: Board, published: Sequence[ClaimFile], passports: tuple[Passport, ...], notes: Sequence[str] = ()) -> str:
    """The page of a board; passports are those of its runs, and notes say how several became one board."""
    numbered = Cells(board)
    parts = tuple(part for operator in board.operators for part in slices(board, operator))
    drawn = {figure.key: figure for figure in figures(board, numbered, published)}
    contents = Contents(board, passports, numbered, parts, drawn)
    panels = {key: content for key, (_, make) in PANELS.items() if (content := make(contents))}
    content, meanings = explained(join([header(contents, notes), *panels.values()]))
    body = [
        tag("a", "Skip the toolbar", href="#main", class_="skip"),
        _toolbar(board, panels),
        tag("main", content, id="main", tabindex="-1", data_origin=origin(board.passport)),
        meanings,
        *scripted(data.payload(contents)),
    ]
    return html_document(title(board), join(body, "\n"))


def scripted(payload: dict[str, Any]) -> list[Markup]:
    """The end of a page that has the whole script: its dialog, the library if there is a figure, its data, the script."""
    return [
        Markup('<dialog id="details" aria-labelledby="details-title"></dialog>'),
        *([embed.plotly_element()] if payload["figures"] else []),
        embed.data_element(payload),
        tag("script", embed.script()),
    ]


def html_document(name: str, body: Markup) -> str:
    # The script marks the root before anything is drawn, so that parts that need a script never flash up.
    head = [
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", name),
        tag("style", embed.style()),
        tag("script", Markup("document.documentElement.classList.add('scripted');")),
    ]
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{join(head, chr(10))}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _toolbar(board: Board, present: Iterable[str]) -> Markup:
    links = (tag("a", PANELS[key][0], href=f"#{key}") for key in present)
    nav = tag("nav", *links, aria_label="panels")
    return tag("header", nav, _focus(board), _baseline(board), theme(), class_="toolbar")


def _focus(board: Board) -> Markup | None:
    names = list(dict.fromkeys(standing.implementation for standing in board.ranking if standing.score is not None))
    if len(names) < 2:
        return None
    options = (tag("option", name or "all", value=name) for name in ("", *names))
    return tag("div", tag("label", "focus ", tag("select", *options, id="focus")), class_="needs-script control")


def _baseline(board: Board) -> Markup | None:
    names = baselines(board)
    if len(names) < 2:
        return None
    options = (tag("option", name, value=number) for number, name in enumerate(names))
    label = tag("label", tag("span", "speed-up over "), tag("select", *options, id="baseline"))
    return tag("div", label, class_="needs-script control")


def theme() -> Markup:
    return tag("button", "theme: system", type="button", id="theme", class_="needs-script control")
