"""What a figure is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """scale is "linear", "log" or "words"; form says how its values are written: "size", "number",
    "percent", "us", "factor", "reading"."""

    title: str
    scale: str = "linear"
    form: str = "number"
    from_zero: bool = False


@dataclass(frozen=True)
class Series:
    """Points of one name. keys name the points, in the table that stands for the figure too; an empty key leaves one out.

    cells are the numbers of the cells that points stand for, -1 for none; a point with a cell opens its details.
    role is "entrant", "reference", "roof", "peak" or "published" and decides the looks of whoever is no entrant;
    of entrants the name does, or that of the implementation that it is like. With loose points no line joins them.
    """

    name: str
    x: Sequence[float] | Sequence[str]
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
    """One of the pictures among which the reader of a figure chooses."""

    label: str
    series: list[Series]


@dataclass(frozen=True)
class Figure:
    """A figure; with several panes they stand above each other over one x axis, each with its y axis.

    alt says in a sentence what the figure shows, to who cannot see it. Of one with a diagonal both axes have one range;
    one of steps holds its value until the next point, and marks a few points only.
    """

    key: str
    title: str
    alt: str
    x: Axis
    panes: list[Axis]
    views: list[FigureView]
    diagonal: bool = False
    steps: bool = False
