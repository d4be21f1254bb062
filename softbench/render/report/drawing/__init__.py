"""A view of a figure as SVG, for a paper: no script, no style sheet, no font; in light colours, 1000 pixels wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from softbench.analysis.leaderboard.formatting import short
from softbench.render.report.drawing.scales import Scale, scale
from softbench.render.report.drawing.styles import INK, MUTED, RULE, Style, style_of
from softbench.render.report.drawing.svg_elements import line, sign, svg_document, text
from softbench.render.report.figure import Figure, FigureView, Series
from softbench.render.report.html import Markup, tag

PLOT = 665
"""Width in pixels between the axes; the legend is to the right."""
LEFT, TOP, PANE, GAP, BOTTOM = 80, 46, 420, 36, 60
WORDS_BOTTOM = 52
ASLANT = 4.2
"""Height in pixels of a letter of a slanted word."""
LINE = 19
ROOM = 28
MARKED = 9
"""The most marks on a line of steps."""


def svg(figure: Figure, view: FigureView, implementations: Sequence[str]) -> str:
    """The whole document; implementations decide the colours, as on the page. The same figure gives the same bytes."""
    pane = PANE if len(figure.panes) == 1 else PANE // 2
    foot = TOP + len(figure.panes) * (pane + GAP) - GAP
    names = list(_legend(view, implementations))
    across = scale(figure.x, _ordered(view) if figure.x.scale == "words" else _values(figure, view.series, "x"))
    height = max(foot + _bottom(across), TOP + LINE * len(names) + BOTTOM)
    parts = [text(LEFT, 24, f"{figure.title}: {view.label}", font_size=16, font_weight=600)]
    for number, axis in enumerate(figure.panes):
        own = [entry for entry in view.series if entry.pane == number]
        up = scale(axis, _values(figure, own, "y"))
        place = _Pane(across, up, TOP + number * (pane + GAP), pane)
        parts += [*_frame(place, axis.title), *(_series(place, e, figure, view, implementations) for e in own)]
        parts += [_diagonal(place)] if figure.diagonal else []
        parts += _below(place, figure.x.title) if number == len(figure.panes) - 1 else []
    parts += (
        [_legend_line(row, name, style) for row, (name, style) in enumerate(names)] if len(figure.panes) == 1 else []
    )
    return svg_document(figure.title, figure.alt, height, parts)


def _bottom(across: Scale) -> int:
    """Pixels below the axis, for its ticks and its title."""
    if across.kind != "words":
        return BOTTOM
    return WORDS_BOTTOM + round(ASLANT * max((len(short(word, ROOM)) for _, word in across.ticks), default=0))


def _values(figure: Figure, series: Sequence[Series], side: str) -> list[float]:
    """All numbers of one side, or of both if the figure has a diagonal."""
    sides = ("x", "y") if figure.diagonal else (side,)
    return [float(value) for entry in series for each in sides for value in getattr(entry, each)]


class _Pane:
    """Converts values to pixels."""

    def __init__(self, across: Scale, up: Scale, top: int, height: int) -> None:
        self.across, self.up, self.top, self.height = across, up, top, height

    @property
    def foot(self) -> int:
        return self.top + self.height

    def x(self, value: float | str) -> float:
        return LEFT + PLOT * self.across.place(value)

    def y(self, value: float) -> float:
        return self.foot - self.height * self.up.place(value)


def _ordered(view: FigureView) -> list[str]:
    """Words in the order of the longest series, then the others."""
    longest = sorted(view.series, key=lambda entry: -len(entry.x))
    return [str(word) for entry in longest for word in entry.x]


def _frame(place: _Pane, title: str) -> Iterator[Markup]:
    """Rules and ticks of the vertical axis, and the two axes."""
    for value, label in place.up.ticks:
        yield line(LEFT, place.y(value), LEFT + PLOT, place.y(value), RULE)
        yield text(LEFT - 8, place.y(value) + 4, label, text_anchor="end")
    yield line(LEFT, place.foot, LEFT + PLOT, place.foot, MUTED)
    yield line(LEFT, place.top, LEFT, place.foot, MUTED)
    middle = (place.top + place.foot) / 2
    yield text(22, middle, title, text_anchor="middle", transform=f"rotate(-90 22 {middle:.1f})")


def _below(place: _Pane, title: str) -> Iterator[Markup]:
    """Ticks and title of the horizontal axis; words are slanted."""
    words = place.across.kind == "words"
    for value, label in place.across.ticks:
        x = LEFT + PLOT * value if words else place.x(value)
        yield line(x, place.foot, x, place.foot + 5, MUTED)
        if words:
            turned = f"rotate(-35 {x:.1f} {place.foot + 18:.1f})"
            yield text(x, place.foot + 18, short(label, ROOM), text_anchor="end", transform=turned)
        else:
            yield text(x, place.foot + 20, label, text_anchor="middle")
    yield text(LEFT + PLOT / 2, place.foot + _bottom(place.across) - 14, title, text_anchor="middle")


def _series(place: _Pane, entry: Series, figure: Figure, view: FigureView, implementations: Sequence[str]) -> Markup:
    style = style_of(entry, implementations, view.series)
    across: Sequence[float | str] = entry.x
    points = [(place.x(x), place.y(y)) for x, y in zip(across, entry.y, strict=True)]
    parts: list[Markup] = []
    if not entry.loose and len(points) > 1:
        dash = style.dash or None
        shape = _path(points, figure.steps)
        parts.append(tag("path", d=shape, fill="none", stroke=style.colour, stroke_width=2, stroke_dasharray=dash))
    if entry.loose or entry.markers:
        stride = max(1, len(points) // MARKED) if figure.steps else 1
        parts += [sign(x, y, style) for x, y in points[::stride]]
    return tag("g", *parts)


def _path(points: Sequence[tuple[float, float]], steps: bool) -> str:
    first, *rest = points
    path = f"M{first[0]:.1f},{first[1]:.1f}"
    for x, y in rest:
        path += f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f},{y:.1f}"
    return path


def _diagonal(place: _Pane) -> Markup:
    low, high = place.across.low, place.across.high
    return line(place.x(low), place.y(low), place.x(high), place.y(high), INK, stroke_dasharray="6 4")


def _legend(view: FigureView, implementations: Sequence[str]) -> Iterator[tuple[str, Style]]:
    """Each name once, with the style of its first series."""
    seen = set()
    for entry in view.series:
        if (entry.role, entry.name) not in seen:
            seen.add((entry.role, entry.name))
            name = short(entry.name, ROOM) + (f" ({entry.role})" if entry.role in ("open", "reference") else "")
            yield name, style_of(entry, implementations, view.series)


def _legend_line(row: int, name: str, style: Style) -> Markup:
    x, y = LEFT + PLOT + 18, TOP + LINE * row + 6
    dash = style.dash or None
    stroke = line(x, y, x + 26, y, style.colour, stroke_width=2, stroke_dasharray=dash)
    return tag("g", stroke, sign(x + 13, y, style), text(x + 34, y + 4, name))
