"""Experiment 4: a Triton kernel of three passes and the variants that a plan promised gains from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from softbench.analysis.experiments.evidence import Evidence, Finding, cell_of, table
from softbench.analysis.leaderboard import CaseBoard
from softbench.model import stats
from softbench.records.published import PublishedTable

LADDER = {
    "triton_three_pass": "three passes",
    "triton_single": "A, one pass in registers",
    "triton_wide": "B, wide loads",
    "triton_chunked": "C, chunks",
    "triton_exp2": "D, exp2",
    "triton_unrolled": "E, unrolled",
    "triton_two_reads": "F, two reads",
    "triton_best": "autotuned",
}
LARGE_BYTES = 2**26  # below it the L2 cache and the launch have a part in every bandwidth
_FORMS = {"speedup": "{:.2f}x", "bandwidth_util": "{:.1f} %", "launch_overhead": "{:.1f} us"}
_TITLES = {
    "speedup": "speed-up over torch eager",
    "bandwidth_util": "% of the roof",
    "launch_overhead": "host time of a call",
}


def section(evidence: Evidence, published: PublishedTable) -> str:
    """The ladder over the same matrices: geometric means where a rung passed, against the plan's columns."""
    cases = [
        case for case in evidence.cases if case.case.timed and case.case.rows > 1 and set(LADDER) & set(case.cells)
    ]
    large = [case for case in cases if any(cell.record.ideal_bytes >= LARGE_BYTES for cell in case.cells.values())]
    figures = {name: _figures(name, cases, large) for name in LADDER}
    rows = [
        [f"{name} ({what})", *(_said(metric, figures[name][metric]) for metric in _FORMS), _coverage(name, large)]
        for name, what in LADDER.items()
    ]
    for word in ("current", "target", "stretch"):
        plan = (_FORMS[metric].format(published.number(word, metric=metric)) for metric in _FORMS)
        rows.append([f"the plan: {word}", *plan, ""])
    header = ["implementation", *(_TITLES[metric] for metric in _FORMS), "matrices"]
    findings = [_reached(metric, word, published, figures) for metric in _FORMS for word in ("target", "stretch")]
    steps = "\n".join(map(str, _steps(large)))
    return "\n\n".join([table(header, rows), "\n".join(map(str, findings)), "What each step is worth:", steps])


def _figures(name: str, cases: Sequence[CaseBoard], large: Sequence[CaseBoard]) -> dict[str, float | None]:
    """By the plan's metric. The call is that of the smallest matrix, which hides least of it."""
    cells = [cell for case in large if (cell := cell_of(case, name)) is not None]
    calls = [
        (case.case.elements, cell.call_ns)
        for case in cases
        if (cell := cell_of(case, name)) and cell.call_ns is not None
    ]
    return {
        "speedup": _mean([cell.speedup for cell in cells]),
        "bandwidth_util": _mean([cell.percent_of_roof for cell in cells]),
        "launch_overhead": min(calls)[1] / 1e3 if calls else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return stats.geometric_mean(known) if known else None


def _said(metric: str, value: float | None) -> str:
    return "not measured" if value is None else _FORMS[metric].format(value)


def _coverage(name: str, large: Sequence[CaseBoard]) -> str:
    passed = [case for case in large if (cell := cell_of(case, name)) is not None and cell.latency_ns is not None]
    return f"{len(passed)} of {len(large)}"


def _reached(metric: str, word: str, published: PublishedTable, figures: dict[str, dict[str, float | None]]) -> Finding:
    """Whether any rung reaches a figure of the plan, and the first of the ladder that does."""
    goal, is_less = published.number(word, metric=metric), metric == "launch_overhead"
    statement = f"The plan's {word} can be reached: {_TITLES[metric]} {_FORMS[metric].format(goal)}."
    values = {name: found[metric] for name, found in figures.items() if found[metric] is not None}
    there = [n for n, v in values.items() if v is not None and (v <= goal if is_less else v >= goal)]
    measured = f"first by {there[0]}, {_said(metric, values[there[0]])}" if there else ""
    return Finding(statement, bool(there) if values else None, measured)


def _steps(large: Sequence[CaseBoard]) -> list[str]:
    """Time of each rung over that of the next, over the matrices that both passed."""
    names = list(LADDER)
    said = []
    for before, after in itertools.pairwise(names):
        ratios = []
        for case in large:
            slow, fast = cell_of(case, before), cell_of(case, after)
            if slow is not None and fast is not None and slow.latency_ns and fast.latency_ns:
                ratios.append(slow.latency_ns / fast.latency_ns)
        gain = f"{stats.geometric_mean(ratios):.2f}x over {len(ratios)} matrices" if ratios else "not measured"
        said.append(f"- {before} to {after}: {gain}")
    return said
