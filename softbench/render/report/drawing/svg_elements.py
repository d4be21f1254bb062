"""The elements of drawings: the document, text, lines, signs."""

import re
from collections.abc import Sequence

from softbench.render.report.drawing.styles import LIGHT, MUTED, PAPER, SHAPES, Style
from softbench.render.report.html import Markup, join, tag

WIDTH = 1000
HEAD = 54
"""Pixels of the head of a document."""
FONT = {"font_family": "sans-serif", "font_size": 13}


def drawing(width: int, height: int, said: str, parts: Sequence[Markup]) -> Markup:
    """An element of the page, in the colours of its style sheet; said describes it."""
    look = {"class_": "drawn", "fill": "currentColor", **FONT}
    return tag("svg", *parts, viewBox=f"0 0 {width} {height}", **look, role="img", aria_label=said)


def svg_document(title: str, origin: str, alt: str, size: tuple[int, int], parts: Sequence[Markup]) -> str:
    """A drawing of its own, on a light ground, under its title and the GPU and run that it is of."""
    width, height = size[0], size[1] + HEAD
    head = [tag("title", title), tag("desc", alt), tag("rect", width=width, height=height, fill=PAPER)]
    head += [text(24, 24, title, font_size=16, font_weight=600), text(24, 42, origin, font_size=11, fill=MUTED)]
    body = join([*head, tag("g", "\n", join(parts, "\n"), transform=f"translate(0 {HEAD})")], "\n")
    place = {"xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    drawn = tag("svg", "\n", body, "\n", **place, role="img", **FONT, fill=LIGHT["ink"])
    return re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], f"{drawn}\n")


def text(x: float, y: float, content: str, **attributes: object) -> Markup:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, **attributes: object) -> Markup:
    across = Markup(f'd="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}"')
    more = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items() if value)
    return Markup(f"<path {across}{more}/>")


def box(x: float, y: float, width: float, height: float, colour: str) -> Markup:
    return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", fill=colour)


def signs(points: Sequence[tuple[float, float]], style: Style, **attributes: object) -> Markup:
    d = "".join(f"M{x:.1f} {y:.1f}{SHAPES[style.shape]}" for x, y in points)
    return tag("path", d=d, fill=PAPER if style.is_open else style.colour, stroke=style.colour, **attributes)


def sign(x: float, y: float, style: Style) -> Markup:
    return signs([(x, y)], style)
