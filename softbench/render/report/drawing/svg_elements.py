"""The elements of drawings: the document, text, lines, signs."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.render.report.drawing.styles import INK, PAPER, Style
from softbench.render.report.html import Markup, join, tag

WIDTH = 1000


def svg_document(title: str, alt: str, height: int, parts: Sequence[Markup]) -> str:
    """The whole drawing, WIDTH pixels wide, on a light background, so that it can be read on a dark page too."""
    head = [tag("title", title), tag("desc", alt), tag("rect", width=WIDTH, height=height, fill=PAPER)]
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return f'{opened} role="img" font-family="sans-serif" font-size="13">\n{join([*head, *parts], chr(10))}\n</svg>\n'


def text(x: float, y: float, content: str, **attributes: object) -> Markup:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", **{"fill": INK, **attributes})


def line(x1: float, y1: float, x2: float, y2: float, colour: str, **attributes: object) -> Markup:
    ends = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    return tag("line", **{**ends, "stroke": colour, **attributes})


def box(x: float, y: float, width: float, height: float, colour: str) -> Markup:
    sides = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}
    return tag("rect", **{**sides, "fill": colour})


def sign(x: float, y: float, style: Style) -> Markup:
    fill = PAPER if style.is_open else style.colour
    return tag("path", d=style.shape, transform=f"translate({x:.1f} {y:.1f})", fill=fill, stroke=style.colour)
