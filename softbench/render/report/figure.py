"""The data of a figure: axes, series, views."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """scale is "linear", "log" or "words"; form of values is "size", "number", "percent", "us", "ratio" or "reading"."""

    title: str
    scale: str = "linear"
    form: str = "number"
    from_zero: bool = False


@dataclass(frozen=True)
class Series:
    """Points of one name. keys name the points, also in the figure's table; a point with an empty key is not in the table.

    cells are the numbers of the points' cells, -1 for none; a point with a cell opens its details. role is "entrant",
    "open", "reference", "roof", "reading" or "published", and decides the style; that of an entrant follows from its name, or from
    the implementation that it is `like`. No line joins loose points.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    keys: list[str]
    cells: list[int]
    role: str = "entrant"
    loose: bool = False
    markers: bool = True
    pane: int = 0
    like: str = ""


@dataclass(frozen=True)
class FigureView:
    """One of the pictures of a figure; those of one group have one vertical scale."""

    label: str
    series: list[Series]
    group: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure. Several panes are stacked over one x axis, each with its own y axis. A figure without views is not shown.

    alt describes the figure in a sentence for readers who cannot see it. With a diagonal both axes have the same range. The views
    of one that is shown together are small multiples, side by side; of another figure the reader chooses one.
    """

    key: str
    title: str
    alt: str
    x: Axis
    panes: list[Axis]
    views: list[FigureView]
    diagonal: bool = False
    together: bool = False
