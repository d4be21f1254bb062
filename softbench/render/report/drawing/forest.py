"""A forest plot: one row per name with its ratio and interval on a scale of logarithms, and a rule at 1."""

import math

from softbench.analysis.compare.forest import Forest
from softbench.analysis.leaderboard import estimates
from softbench.analysis.leaderboard.formatting import short
from softbench.render.report.drawing.scales import scale
from softbench.render.report.drawing.styles import INK, MUTED, PALETTE, RULE, Style
from softbench.render.report.drawing.svg_elements import drawing, line, sign, text
from softbench.render.report.figure import Axis
from softbench.render.report.html import Markup, frame, join, tag

GLYPH, RIGHT, FOOT = 6.8, 160, 34
LEAST = 0.01
"""The least distance from 1 on the scale: changes below it look small."""
TALL = 25
"""With more rows the axis is drawn above them too, since the one below is off the screen."""


def forest_plot(forest: Forest) -> Markup:
    """The note and the drawing, in a frame that scrolls; on a phone another drawing, with the names above their rows."""
    drawn = (tag("div", _drawing(forest, is_narrow), class_="narrow" if is_narrow else "wide") for is_narrow in (False, True))
    return join([tag("p", forest.note, class_="lead"), tag("figure", *drawn, class_="single")])


def _drawing(forest: Forest, is_narrow: bool) -> Markup:
    """Where an interval has no bound it ends with the scale."""
    rows = forest.rows
    widest = round(GLYPH * max(len(name) for name, _ in rows)) + 16
    left, width, pitch = (16, 180, 38) if is_narrow else (widest, 420, 22)
    top = FOOT * (len(rows) > TALL)
    far = max(LEAST, *(abs(math.log(own.value)) for _, own in rows)) * 1.2
    axis = scale(Axis("", "linear"), [math.exp(-far), 1.0, math.exp(far)])

    def x(value: float) -> float:
        return left + width * min(max(axis.place(value), 0.0), 1.0)

    foot = top + pitch * len(rows) + 8
    ticks = (axis.ticks[0], (1.0, "1"), axis.ticks[-1]) if is_narrow else axis.ticks
    parts = [line(x(at), top, x(at), foot, RULE) for at, _ in ticks]
    marks = [foot + 18, *[top - 8] * bool(top)]
    parts += [text(x(at), y, f"{word}×", text_anchor="middle") for at, word in ticks for y in marks]
    parts += [line(x(1), top, x(1), foot, INK)]
    for at, (name, own) in enumerate(rows):
        y = top + pitch * (at + 1) - 8
        is_same = own.low <= 1 <= own.high
        colour = MUTED if is_same else PALETTE[1] if own.value < 1 else PALETTE[5]
        value, low, high = (f"{figure:.{estimates.places(own, 3)}f}" for figure in (own.value, own.low, own.high))
        beside = text(left - 12, y + 4, name, text_anchor="end", font_size=12)
        parts += [
            text(0, y - 12, short(name, 52), font_size=12) if is_narrow else beside,
            line(x(own.low), y, x(own.high), y, colour, stroke_width=2),
            sign(x(own.value), y, Style(colour, "", "square")),
            text(left + width + 10, y + 4, f"{value} [{low}, {high}]" if own.is_known else value, font_size=12),
        ]
    drawn = drawing(left + width + RIGHT, foot + FOOT, f"Ratios with intervals, {len(rows)} rows", parts)
    return frame(drawn, "forest plot")
