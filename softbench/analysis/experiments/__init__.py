"""Published experiments beside what runs here say of them, as one Markdown page. Pure: records and tables to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from softbench.analysis import leaderboard
from softbench.analysis.experiments import fusion, overhead, stability, triton
from softbench.analysis.experiments.evidence import Evidence
from softbench.model import Run
from softbench.records.published import PublishedError, PublishedTable

__all__ = ["SECTIONS", "markdown"]

SECTIONS = {
    "stability": ("Numerical stability", stability.section),
    "overhead": ("The price of the maximum", overhead.section),
    "fusion": ("Fusing the passes", fusion.section),
    "triton": ("A ladder in Triton", triton.section),
}
"""By the name of the published table: title, and what makes the section. The profile is `experiment-NAME`."""
_COLUMNS = {
    "stability": ("elements", "distribution", "implementation", "sum_of_output", "nonfinite"),
    "overhead": ("elements", "implementation", "latency_ms"),
    "fusion": ("elements", "implementation", "latency_ms"),
    "triton": ("metric", "current", "target", "stretch"),
}

SUBJECTS = ("cuda_naive", "cuda_multi_pass", "cuda_fused", "triton_three_pass")


def markdown(runs: Sequence[Run], published: Mapping[str, PublishedTable]) -> str:
    """The page: per experiment the published figures, those of the runs, and whether each finding holds on this GPU.

    Where several runs have a case, the last one counts. Raises PublishedError for a published table that is missing,
    and for runs without any of the kernels in question.
    """
    evidence = Evidence(tuple(leaderboard.build(run) for run in runs))
    if not any(set(SUBJECTS) & set(case.cells) for case in evidence.cases):
        raise PublishedError(f"none of these runs has a cell of {', '.join(SUBJECTS)}: nothing to compare")
    parts = ["# Experiments", _origin(runs)]
    for name, (title, section) in SECTIONS.items():
        if name not in published:
            raise PublishedError(f"the published figures of {name} are missing: {name}.csv")
        source = published[name]
        source.require(_COLUMNS[name])
        parts.append(f"## {title}")
        parts.append(f"Profile `experiment-{name}`. Published: {source.source}; GPU: {source.gpu}; {source.what}.")
        parts.append(section(evidence, source))
    return "\n\n".join(parts) + "\n"


def _origin(runs: Sequence[Run]) -> str:
    lines = [
        "Made by `softbench experiments` from these runs; times are those of the ranking clock:",
        "",
    ]
    for run in runs:
        gpu = run.passport.device
        what = f"{gpu.get('name', 'unknown')}, driver {gpu.get('driver', 'unknown')}"
        lines.append(
            f"- `{run.passport.run_id}`: {what}, {run.passport.started[:10]}, clock `{run.passport.ranking_clock}`"
        )
    return "\n".join(lines)
