"""Scores and chosen cells over runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from softbench.analysis.history import History, Line
from softbench.analysis.history.summary import date
from softbench.render.report.figure import Axis, Figure, FigureView, Series


def figures(history: History, key: str = "") -> list[Figure]:
    """Scores with one view per operator, and chosen cells, the longest history first.

    key distinguishes the figures of several histories.
    """
    drawn = (
        (f"scores{key}", "Score over the runs", "score, % of roof", history.scores),
        (f"chosen{key}", "Chosen cells over the runs", "% of roof", history.cells),
    )
    return [_figure(history, name, title, axis, lines) for name, title, axis, lines in drawn if lines]


def _by_length(own: Sequence[Line]) -> list[str]:
    """The operators or cases of the lines, the longest history first, since one run shows no change."""
    lengths: dict[str, int] = {}
    for line in own:
        lengths[line.of] = max(lengths.get(line.of, 0), len(line.points))
    return sorted(lengths, key=lambda name: -lengths[name])


def _figure(history: History, key: str, title: str, axis: str, lines: Sequence[Line]) -> Figure:
    views = [FigureView(of, _series(history, [line for line in lines if line.of == of])) for of in _by_length(lines)]
    alt = f"{title} of {history.title}, one line per implementation; a line breaks where a run has other cases."
    return Figure(key, title, alt, Axis("run", "words"), [Axis(axis)], views)


def _series(history: History, own: Sequence[Line]) -> list[Series]:
    """The roof through all runs first, which gives the axis their order; then one series per stretch of one question."""
    labels = [f"#{number + 1}, {date(run)}" for number, run in enumerate(history.runs)]
    roof = Series("roof", labels, [100.0] * len(labels), [""] * len(labels), [-1] * len(labels), "roof", markers=False)
    return [roof, *(series for line in own for series in _stretches(line, labels))]


def _stretches(line: Line, labels: Sequence[str]) -> Iterator[Series]:
    for _, points in groupby(line.points, key=lambda point: point.question):
        stretch = list(points)
        x = [labels[point.run] for point in stretch]
        yield Series(line.implementation, x, [round(point.value, 2) for point in stretch], x, [-1] * len(x))
