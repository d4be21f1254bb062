"""Colours, signs and dashes: those of the page's script (`assets/palette.js`, `traces.js`), in its light theme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softbench.render.report.figure import Series

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
INK, MUTED, RULE, PAPER = "#1b1f24", "#59626d", "#dde1e6", "#ffffff"
DASHES = ("", "8 5", "8 4 2 4", "2 4")
"""solid, dash, dashdot, dot"""
_SHAPES = {
    "circle": "M-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z",
    "square": "M-3.6,-3.6h7.2v7.2h-7.2z",
    "diamond": "M0,-5l5,5l-5,5l-5,-5z",
    "triangle-up": "M0,-5l4.8,8.4h-9.6z",
    "cross": "M-1.5,-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "x": "M-2.4,-4.6l2.4,2.4l2.4,-2.4l2.2,2.2l-2.4,2.4l2.4,2.4l-2.2,2.2l-2.4,-2.4l-2.4,2.4l-2.2,-2.2l2.4,-2.4l-2.4,-2.4z",
    "line": "M-5,0h10",
}


@dataclass(frozen=True)
class Style:
    """colour as #rrggbb, dash as in SVG, shape as a path around the point; an open shape is not filled."""

    colour: str
    dash: str
    shape: str
    is_open: bool = False


def style_of(entry: Series, implementations: Sequence[str], others: Sequence[Series]) -> Style:
    """The style of a series; that of an entrant follows from its place among the implementations, as on the page."""
    if entry.role == "roof":
        return Style(INK, DASHES[1], _SHAPES["line"], True)
    if entry.role in ("peak", "reference"):
        return Style(MUTED, DASHES[3], _SHAPES["line"], True)
    if entry.role == "reading":
        return Style(COLOURS[entry.pane % len(COLOURS)], "", _SHAPES["circle"])
    name = entry.like or entry.name
    number = implementations.index(name) if name in implementations else _stranger(entry, implementations, others)
    own = numbered_style(number)
    return Style(own.colour, DASHES[3], own.shape, True) if entry.role == "published" else own


def numbered_style(number: int) -> Style:
    """The style of the implementation with that number."""
    turn = number // len(COLOURS)
    colour, shape = COLOURS[number % len(COLOURS)], _SHAPES[SYMBOLS[number % len(SYMBOLS)]]
    return Style(colour, DASHES[turn % len(DASHES)], shape, turn % 2 == 1)


def _stranger(entry: Series, implementations: Sequence[str], others: Sequence[Series]) -> int:
    """A number for an implementation that is not in the run, whose colour no entrant of the picture has."""
    used = {
        implementations.index(o.name) % len(COLOURS)
        for o in others
        if o.role == "entrant" and o.name in implementations
    }
    free = next((number for number in range(len(COLOURS)) if number not in used), len(implementations))
    strangers = list(dict.fromkeys(o.name for o in others if (o.like or o.name) not in implementations))
    return free + strangers.index(entry.name)
