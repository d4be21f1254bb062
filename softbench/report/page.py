"""The page as a whole: head, panels in reading order, scripts."""

from __future__ import annotations

from softbench.leaderboard import Board
from softbench.leaderboard.words import clock_note, short, verdict
from softbench.report import charts, sections
from softbench.report.html import Markup, embedded_json, join, tag
from softbench.report.style import CHART_SCRIPT, CSS, FILTER_SCRIPT

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""Forbids the page every request, so that a report looked at is never a report sent."""


def page(board: Board) -> str:
    """The whole document of a board."""
    figures = charts.figures(board)
    title = f"{', '.join(board.operators) or 'softbench'} on {short(str(board.passport.device.get('name', '?')), 60)}"
    panels = [
        _header(board, title),
        sections.ranking(board),
        _charts(figures),
        sections.summary(board),
        sections.correctness(board),
        sections.cells(board),
        sections.passport(board),
        _scripts(figures),
    ]
    head = join(
        [
            Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
            tag("title", title),
            tag("style", Markup(CSS)),
        ],
        "\n",
    )
    body = join([panel for panel in panels if panel], "\n")
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _header(board: Board, title: str) -> Markup:
    passport = board.passport
    facts = [passport.started, f"commit {passport.commit}" if passport.commit else "", ", ".join(passport.profiles)]
    parts = [tag("h1", title), tag("p", verdict(board), class_="verdict")]
    parts.append(tag("p", " · ".join(fact for fact in facts if fact), class_="meta"))
    if board.has_scores:
        parts.append(tag("p", clock_note(board), class_="meta"))
    return tag("header", *parts)


def _charts(figures: list[charts.Figure]) -> Markup:
    if not figures:
        return Markup("")
    note = "Lines join the tallest large matrix of every power-of-two width; all other shapes are loose points."
    parts = [tag("h2", "Bandwidth over columns"), tag("p", note, class_="note")]
    for index, figure in enumerate(figures):
        parts += [tag("h3", figure["title"]), tag("div", id=f"chart-{index}", class_="chart")]
    return join(parts)


def _scripts(figures: list[charts.Figure]) -> Markup:
    scripts = [tag("script", Markup(FILTER_SCRIPT))]
    if figures:
        scripts.append(tag("script", Markup(charts.plotly_script())))
        scripts.append(tag("script", embedded_json(figures), id="figures", type="application/json"))
        scripts.append(tag("script", Markup(CHART_SCRIPT)))
    return join(scripts, "\n")
