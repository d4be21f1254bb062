"""Scores and chosen cells over runs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from softbench.analysis.compare.surroundings import date
from softbench.analysis.history import History, Line
from softbench.analysis.leaderboard.formatting import dtype_text
from softbench.render.report.figure import Axis, Figure, FigureView, Series


def figures(history: History, key: str = "", together: bool = False) -> list[Figure]:
    """Scores with one view per operator, and chosen cells, the longest history first.

    key distinguishes the figures of several histories. together draws small multiples of what several runs have, with marks at
    the steps.
    """
    drawn = (
        (f"scores{key}", "Score over the runs", "score, % of roof", history.scores),
        (f"chosen{key}", "Chosen cells over the runs", "% of roof", history.cells),
    )
    made = [_figure(history, name, title, axis, lines) for name, title, axis, lines in drawn if lines]
    return [marked for own in made if (marked := _marked(history, own)).views] if together else made


def _marked(history: History, own: Figure) -> Figure:
    """Small multiples of the views of several runs: lines without marks, but at the steps."""
    views = []
    for view in own.views:
        at = {
            (step.implementation, _label(history, step.at))
            for step in history.steps
            if any(
                f"{view.label}:".startswith((f"{dtype_text(c.case.dtype, c.case.out_dtype)}:", f"{c.case.id}:")) for c in step.cells
            )
        }
        if len({x for entry in view.series if entry.role != "roof" for x in entry.x}) > 1:
            series = [replace(entry, markers=len(entry.x) == 1) for entry in view.series]
            views.append(FigureView(view.label, [*series, *filter(None, (_steps(entry, at) for entry in series))]))
    title = f"{own.title} of {history.title}; marks are steps"
    return replace(own, title=title, views=views, together=len(views) > 1)


def _steps(entry: Series, at: set[tuple[str, str]]) -> Series | None:
    points = [(str(x), y) for x, y in zip(entry.x, entry.y, strict=True) if (entry.name, str(x)) in at]
    x = [word for word, _ in points]
    return Series(entry.name, x, [y for _, y in points], x, [-1] * len(x), loose=True) if points else None


def _label(history: History, run: int) -> str:
    return f"#{run + 1}, {date(history.runs[run])[:10]}"


def _figure(history: History, key: str, title: str, axis: str, lines: Sequence[Line]) -> Figure:
    """One view per operator or case, the longest history first, since one run shows no change."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.of, []).append(line)
    longest = sorted(groups.items(), key=lambda group: -max(len(line.points) for line in group[1]))
    views = [FigureView(of, _series(history, own)) for of, own in longest]
    alt = f"{title} of {history.title}, one line per implementation; a line breaks where a run has other cases."
    return Figure(key, title, alt, Axis("run", "words"), [Axis(axis)], views)


def _series(history: History, own: Sequence[Line]) -> list[Series]:
    """The roof through all runs first, which gives the axis their order; then one series per stretch of one question."""
    labels = [_label(history, number) for number in range(len(history.runs))]
    roof = Series("roof", labels, [100.0] * len(labels), [""] * len(labels), [-1] * len(labels), "roof", markers=False)
    return [roof, *(series for line in own for series in _stretches(line, labels))]


def _stretches(line: Line, labels: Sequence[str]) -> Iterator[Series]:
    for _, points in groupby(line.points, key=lambda point: point.question):
        stretch = list(points)
        x = [labels[point.run] for point in stretch]
        yield Series(line.implementation, x, [round(point.value, 2) for point in stretch], x, [-1] * len(x))
