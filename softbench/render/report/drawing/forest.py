"""A forest plot: one row per name with its ratio and interval on a scale of logarithms, and a rule at 1."""

import math
from collections.abc import Sequence

from softbench.analysis.leaderboard.estimates import Estimate
from softbench.render.report.drawing.scales import scale
from softbench.render.report.drawing.styles import INK, MUTED, PALETTE, RULE, Style
from softbench.render.report.drawing.svg_elements import FONT, line, sign, text
from softbench.render.report.figure import Axis
from softbench.render.report.html import Markup, frame, join, tag

ForestRow = tuple[str, Estimate]
LEFT, PLOT, RIGHT, ROW, FOOT = 430, 420, 150, 22, 34
LEAST = 0.01
"""The least distance from 1 on the scale: changes below it look small."""


def forest_plot(rows: Sequence[ForestRow]) -> Markup:
    """The drawing, in a frame that scrolls; where an interval has no bound it ends with the scale."""
    far = max(LEAST, *(abs(math.log(own.value)) for _, own in rows)) * 1.2
    axis = scale(Axis("", "linear"), [math.exp(-far), 1.0, math.exp(far)])

    def x(value: float) -> float:
        return LEFT + PLOT * min(max(axis.place(value), 0.0), 1.0)

    foot = ROW * len(rows) + 8
    parts = [line(x(at), 0, x(at), foot, RULE) for at, _ in axis.ticks]
    parts += [text(x(at), foot + 18, f"{word}×", text_anchor="middle") for at, word in axis.ticks]
    parts += [line(x(1), 0, x(1), foot, INK)]
    for at, (name, own) in enumerate(rows):
        y = ROW * at + 14
        is_same = own.low <= 1 <= own.high
        colour = MUTED if is_same else PALETTE[1] if own.value < 1 else PALETTE[5]
        interval = f"{own.value:.3f} [{own.low:.3f}, {own.high:.3f}]" if own.is_known else f"{own.value:.3f}"
        parts += [
            text(LEFT - 12, y + 4, name, text_anchor="end", font_size=12),
            line(x(own.low), y, x(own.high), y, colour, stroke_width=2),
            sign(x(own.value), y, Style(colour, "", "square")),
            text(LEFT + PLOT + 10, y + 4, interval, font_size=12),
        ]
    box = f'viewBox="0 0 {LEFT + PLOT + RIGHT} {foot + FOOT}" class="drawn" fill="currentColor" {FONT}'
    said = tag("i", f"Ratios with intervals; left of 1 is faster. {len(rows)} rows.")[3:-4]
    drawn = Markup(f'<svg {box} role="img" aria-label="{said}">{join(parts)}</svg>')
    return tag("figure", frame(drawn, "forest plot"), class_="single")
