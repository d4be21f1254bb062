"""A forest plot: one row per name with its ratio and interval on a scale of logarithms, and a rule at 1."""

import math

from softbench.analysis.compare.forest import Forest
from softbench.analysis.leaderboard import estimates
from softbench.render.report.drawing.scales import scale
from softbench.render.report.drawing.styles import INK, MUTED, PALETTE, RULE, Style
from softbench.render.report.drawing.svg_elements import FONT, line, sign, text
from softbench.render.report.figure import Axis
from softbench.render.report.html import Markup, frame, join, tag

GLYPH, PLOT, RIGHT, ROW, FOOT = 6.8, 420, 160, 22, 34
LEAST = 0.01
"""The least distance from 1 on the scale: changes below it look small."""
TALL = 25
"""With more rows the axis is drawn above them too, since the one below is off the screen."""


def forest_plot(forest: Forest) -> Markup:
    """The note and the drawing, in a frame that scrolls; where an interval has no bound it ends with the scale."""
    rows = forest.rows
    left, top = round(GLYPH * max(len(name) for name, _ in rows)) + 16, FOOT * (len(rows) > TALL)
    far = max(LEAST, *(abs(math.log(own.value)) for _, own in rows)) * 1.2
    axis = scale(Axis("", "linear"), [math.exp(-far), 1.0, math.exp(far)])

    def x(value: float) -> float:
        return left + PLOT * min(max(axis.place(value), 0.0), 1.0)

    foot = top + ROW * len(rows) + 8
    parts = [line(x(at), top, x(at), foot, RULE) for at, _ in axis.ticks]
    marks = [foot + 18, *[top - 8] * bool(top)]
    parts += [text(x(at), y, f"{word}×", text_anchor="middle") for at, word in axis.ticks for y in marks]
    parts += [line(x(1), top, x(1), foot, INK)]
    for at, (name, own) in enumerate(rows):
        y = top + ROW * at + 14
        is_same = own.low <= 1 <= own.high
        colour = MUTED if is_same else PALETTE[1] if own.value < 1 else PALETTE[5]
        value, low, high = (f"{figure:.{estimates.places(own, 3)}f}" for figure in (own.value, own.low, own.high))
        parts += [
            text(left - 12, y + 4, name, text_anchor="end", font_size=12),
            line(x(own.low), y, x(own.high), y, colour, stroke_width=2),
            sign(x(own.value), y, Style(colour, "", "square")),
            text(left + PLOT + 10, y + 4, f"{value} [{low}, {high}]" if own.is_known else value, font_size=12),
        ]
    box = f'viewBox="0 0 {left + PLOT + RIGHT} {foot + FOOT}" class="drawn" fill="currentColor" {FONT}'
    drawn = Markup(f'<svg {box} role="img" aria-label="Ratios with intervals, {len(rows)} rows">{join(parts)}</svg>')
    return join([tag("p", forest.note, class_="lead"), tag("figure", frame(drawn, "forest plot"), class_="single")])
