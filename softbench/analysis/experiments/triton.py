"""Experiment 4: a Triton kernel of three passes and the variants that a plan promised gains from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from softbench.analysis.document import Lines, Part, Table, lines
from softbench.analysis.experiments.evidence import Evidence, Finding, listed
from softbench.analysis.leaderboard import CaseBoard, Cell
from softbench.analysis.leaderboard.ranks import gains
from softbench.model import stats
from softbench.records.published import PublishedTable

LARGE_BYTES = 2**26
"""Below it the L2 cache and the launch have a part in every bandwidth."""
_METRICS = {
    "speedup": ("speed-up over torch eager", "{:.2f}x"),
    "bandwidth_util": ("% of the roof", "{:.1f} %"),
    "launch_overhead": ("host time of a call", "{:.1f} us"),
}
"""By the plan's name: what it is here, and how it is written."""


def section(evidence: Evidence, published: PublishedTable) -> list[Part]:
    """The ladder over the same matrices: geometric means where a rung passed, against the plan's columns."""
    rungs = evidence.playing("rung")
    timed = [case for case in evidence.cases if case.case.timed and case.case.rows > 1]
    cases = [case for case in timed if rungs.keys() & set(case.cells)]
    large = [case for case in cases if any(cell.record.ideal_bytes >= LARGE_BYTES for cell in case.cells.values())]
    figures = {name: _figures(name, cases, large) for name in rungs}
    rows = [
        (f"{name} ({title})", *(_text(metric, figures[name][metric]) for metric in _METRICS), _coverage(name, large))
        for name, title in rungs.items()
    ]
    for word in ("current", "target", "stretch"):
        plan = (_text(metric, published.number(word, metric=metric)) for metric in _METRICS)
        rows.append((f"the plan: {word}", *plan, ""))
    header = ("implementation", *(title for title, _ in _METRICS.values()), "matrices")
    findings = [_reached(metric, word, published, figures) for metric in _METRICS for word in ("target", "stretch")]
    steps = Lines(tuple(_steps(list(rungs), large)), markdown=True)
    return [Table(header, tuple(rows)), listed(findings), *lines("What each step is worth:"), steps]


def _figures(name: str, cases: Sequence[CaseBoard], large: Sequence[CaseBoard]) -> dict[str, float | None]:
    """By the plan's metric. The call is that of the smallest matrix, which hides least of it."""
    cells = _counted(name, large)
    all_cells = [(case.case.elements, cell) for case in cases if (cell := case.by_implementation.get(name))]
    calls = [(elements, cell.call_ns) for elements, cell in all_cells if cell.call_ns is not None]
    return {
        "speedup": _mean([cell.speedup for cell in cells]),
        "bandwidth_util": _mean([cell.percent_of_roof for cell in cells]),
        "launch_overhead": min(calls)[1] / 1e3 if calls else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return stats.geometric_mean(known) if known else None


def _text(metric: str, value: float | None) -> str:
    return "not measured" if value is None else _METRICS[metric][1].format(value)


def _coverage(name: str, large: Sequence[CaseBoard]) -> str:
    return f"{len(_counted(name, large))} of {len(large)}"


def _counted(name: str, cases: Sequence[CaseBoard]) -> list[Cell]:
    """Its cells with a time that counts."""
    own = (case.by_implementation.get(name) for case in cases)
    return [cell for cell in own if cell and cell.latency_ns is not None and not cell.is_open]


def _reached(metric: str, word: str, published: PublishedTable, figures: dict[str, dict[str, float | None]]) -> Finding:
    """Whether any rung reaches a figure of the plan, and the first of the ladder that does."""
    goal, is_less = published.number(word, metric=metric), metric == "launch_overhead"
    statement = f"The plan's {word} can be reached: {_METRICS[metric][0]} {_text(metric, goal)}."
    values = {name: value for name, own in figures.items() if (value := own[metric]) is not None}
    reaching = [name for name, value in values.items() if (value <= goal if is_less else value >= goal)]
    measured = f"first by {reaching[0]}, {_text(metric, values[reaching[0]])}" if reaching else ""
    return Finding(statement, bool(reaching) if values else None, measured)


def _steps(rungs: Sequence[str], large: Sequence[CaseBoard]) -> list[str]:
    """Time of each rung over that of the next, over the matrices that both passed."""
    steps = []
    for before, after in itertools.pairwise(rungs):
        ratios = gains(large, before, after)
        gain = f"{stats.geometric_mean(ratios):.2f}x over {len(ratios)} matrices" if ratios else "not measured"
        steps.append(f"- {before} to {after}: {gain}")
    return steps
