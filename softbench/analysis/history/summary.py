"""A history as a document and as datasets: the steps, scores and cells drawn as a line of text, and the runs."""

from collections.abc import Iterator, Sequence

from softbench.analysis.compare import FELL, OTHER, ROSE, Pair
from softbench.analysis.compare import summary as compare_summary
from softbench.analysis.compare.summary import change_text, percent
from softbench.analysis.compare.surroundings import date
from softbench.analysis.document import Dataset, Document, Heading, Part, lines, table
from softbench.analysis.history import STEP, History, Line, Point, Step
from softbench.analysis.leaderboard.formatting import plural, short
from softbench.model import stats

BARS = "▁▂▃▄▅▆▇█"
SHOWN_RUNS = 8
"""Runs whose figures a table shows; all of them are drawn."""
LEAST_SCALE = 5.0
"""Least range of the bars in per cent of roof, so that values that are nearly equal look equal."""
NAMED_CHANGES, MANY_RUNS = 4, 20
"""Changes of a step that are named; runs that a page shows unfolded."""
A_STEP = (
    f"A step: since the run of the last step, a cell's status changed, or its time over the roof's by {percent(STEP)} or more with "
    "an interval that excludes 0."
)
HOW = (
    f"{A_STEP} Scores are in % of roof over all timed cases of a run; "
    "| separates runs with different cases, or another file of the operator."
)


def document(history: History) -> Document:
    """The verdict, the steps, then the scores, cells and runs. `HOW` explains them, once for all histories."""
    parts: list[Part] = [Heading(history.title), *lines(verdict(history))]
    parts += steps(history)
    for operator in dict.fromkeys(line.of for line in history.scores):
        own = [line for line in history.scores if line.of == operator]
        parts += _drawn(history, f"Score, {operator}", own, "implementation")
    return [*parts, *_drawn(history, "Cells, % of roof", history.cells, "cell"), *_runs(history)]


def datasets(histories: Sequence[History], unread: Sequence[str] = ()) -> Iterator[Dataset]:
    """Scores, chosen cells, the steps cell by cell, what else changed at each, the runs, and the errors of unread files.

    history counts from 1. Scores of one history may be compared if their case_set, a number, is the same.
    """
    numbered = list(enumerate(histories, start=1))
    yield Dataset(
        "scores",
        ("history", "operator", "implementation", "run", "score_percent", "case_set"),
        tuple((*who, point.value, point.question) for n, own in numbered for who, point in _points(n, own, own.scores)),
    )
    yield Dataset(
        "cells",
        ("history", "case", "implementation", "run", "percent_of_roof"),
        tuple((*who, point.value) for n, own in numbered for who, point in _points(n, own, own.cells)),
    )
    steps = [((n, own.runs[s.at].run_id, own.runs[s.since].run_id, s.operator), s) for n, own in numbered for s in own.steps]
    at = ("history", "run", "since", "operator")
    cells = ((where, cell) for where, step in steps for cell in step.cells if isinstance(cell, Pair))
    changed = tuple((*where, *compare_summary.pair_row(cell)) for where, cell in cells)
    yield Dataset("steps", (*at, *compare_summary.COLUMNS), changed)
    changes = tuple((*where, step.implementation, c.what, c.before, c.after) for where, step in steps for c in step.changes)
    yield Dataset("changes", (*at, "implementation", "what", "before", "after"), changes)
    yield Dataset(
        "runs",
        ("history", "machine", "clock", "run", "started", "timed_cases", "driver", "commit"),
        tuple(row for n, own in numbered for row in _run_rows(n, own)),
    )
    yield Dataset("unread", ("error",), tuple((error,) for error in unread))


def _points(number: int, history: History, drawn: Sequence[Line]) -> Iterator[tuple[tuple[object, ...], Point]]:
    for line in drawn:
        for point in line.points:
            yield (number, line.of, line.implementation, history.runs[point.run].run_id), point


def _run_rows(number: int, history: History) -> Iterator[tuple[object, ...]]:
    for run, timed in zip(history.runs, history.timed, strict=True):
        name, driver = (str(run.device.get(key, "")) for key in ("name", "driver"))
        yield number, name, run.ranking_clock, run.run_id, run.started, timed, driver, run.commit


def verdict(history: History) -> str:
    runs = plural(len(history.runs), "run")
    if not history.steps:
        return f"{runs}, no step between them." if len(history.runs) > 1 else f"{runs}: a step takes two."
    last = history.steps[-1]
    named = f"{short(last.implementation)} in #{last.at + 1} ({date(history.runs[last.at])}): {_what(last)}"
    return f"{runs}, {plural(len(history.steps), 'step')}; the last is {named}."


def drawing(line: Line, low: float, high: float, runs: int) -> str:
    """One bar per run for its place from low to high, "·" without a value, "|" before a run with other cases."""
    by_run = {point.run: point for point in line.points}
    text, question = "", None
    for number in range(runs):
        point = by_run.get(number)
        if point is None:
            text += "·"
            continue
        text += "|" if question not in (None, point.question) else ""
        question = point.question
        share = 1 - (high - point.value) / max(high - low, LEAST_SCALE)
        text += BARS[min(int(share * len(BARS)), len(BARS) - 1)]
    return text


def _drawn(history: History, title: str, own: Sequence[Line], what: str) -> list[Part]:
    """One row per line, best last value first; all are drawn on one scale."""
    count = len(history.runs)
    shown = range(max(0, count - SHOWN_RUNS), count)
    values = [point.value for line in own for point in line.points] or [0.0]
    rows = []
    for line in sorted(own, key=lambda line: (-line.points[-1].run, -line.points[-1].value)):
        known = {point.run: f"{point.value:.1f}" for point in line.points}
        name = short(line.implementation) if what == "implementation" else f"{line.of}::{short(line.implementation)}"
        rows.append((name, *(known.get(run, "") for run in shown), drawing(line, min(values), max(values), count)))
    header = (what, *(f"#{run + 1}" for run in shown), "drawn")
    return table(title, header if count > 1 else header[:-1], rows if count > 1 else [row[:-1] for row in rows])


def _runs(history: History) -> list[Part]:
    header = ("#", "date", "run", "timed cases", "driver", "commit")
    rows = []
    for number, (run, timed) in enumerate(zip(history.runs, history.timed, strict=True)):
        driver = str(run.device.get("driver", ""))
        rows.append((str(number + 1), date(run), short(run.run_id, 60), str(timed), driver, run.commit))
    return table("Runs", header, rows, left=(1, 2, 4, 5), folded=len(rows) > MANY_RUNS)


def steps(history: History, named: bool = False) -> list[Part]:
    """The steps with their runs by number, or named where no list has the numbers."""

    def run(at: int) -> str:
        return short(history.runs[at].run_id, 60) if named else f"#{at + 1}"

    header = ("run" if named else "#", "date", "implementation", "what", "what else changed", "since")
    rows = []
    for step in history.steps:
        name = f"{short(step.implementation)}, {step.operator}"
        causes = "; ".join(_causes(step)) or "nothing that is known"
        rows.append((run(step.at), date(history.runs[step.at]), name, _what(step), causes, run(step.since)))
    return table("Steps", header, rows, left=(1, 2, 3, 4, *[5] * named), labels=3)


def _what(step: Step) -> str:
    """How its cells changed: "2 fell, 3 slower (+2.10 %)"; the change is their geometric mean."""
    changes = []
    for how, word in ((FELL, "fell"), (ROSE, "rose"), (OTHER, "changed status")):
        count = sum(cell.moved == how for cell in step.cells)
        changes += [f"{count} {word}"] if count else []
    for word in ("slower", "faster"):
        ratios = [cell.change.ratio for cell in step.cells if cell.verdict == word and cell.change]
        changes += [f"{len(ratios)} {word} ({change_text(stats.geometric_mean(ratios))})"] if ratios else []
    where = f": {step.cells[0].case.id}" if len(step.cells) == 1 else ""
    return ", ".join(changes) + where


def _causes(step: Step) -> Iterator[str]:
    """The source first, if it changed."""
    ordered = sorted(step.changes, key=lambda change: not change.what.startswith("source of"))
    for change in ordered[:NAMED_CHANGES]:
        yield f"{change.what} {short(change.before)} to {short(change.after)}"
    if len(ordered) > NAMED_CHANGES:
        yield f"{len(ordered) - NAMED_CHANGES} more"
