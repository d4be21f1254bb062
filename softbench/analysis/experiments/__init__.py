"""Published experiments compared with runs, as a document. Pure: records and tables in, parts of a document out.

Each experiment names the parts that implementations play in it; `experiments.csv`, among the published figures, says which
implementation plays which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from softbench.analysis import leaderboard
from softbench.analysis.document import Dataset, Document, Heading, Lines, Part
from softbench.analysis.experiments import fusion, overhead, stability, triton
from softbench.analysis.experiments.evidence import Evidence, FindingList
from softbench.analysis.leaderboard import datasets as board_datasets
from softbench.model import Run
from softbench.records.published import PublishedError, PublishedTable

__all__ = ["EXPERIMENTS", "datasets", "document"]


@dataclass(frozen=True)
class Experiment:
    """One section: the columns that its published table must have, and what makes the parts of a document from it."""

    title: str
    columns: tuple[str, ...]
    section: Callable[[Evidence, PublishedTable], list[Part]]


EXPERIMENTS = {
    "stability": Experiment(
        "Numerical stability",
        ("elements", "distribution", "implementation", "sum_of_output", "nonfinite"),
        stability.section,
    ),
    "overhead": Experiment("The price of the maximum", ("elements", "implementation", "latency_ms"), overhead.section),
    "fusion": Experiment("Fusing the passes", ("elements", "implementation", "latency_ms"), fusion.section),
    "triton": Experiment("A ladder in Triton", ("metric", "current", "target", "stretch"), triton.section),
}
"""By the name of the published table. The profile is `experiment-NAME`."""
_ROLES = "experiments"


def document(runs: Sequence[Run], published: Mapping[str, PublishedTable]) -> Document:
    """Per experiment the published figures, those of the runs, and whether each finding holds on this GPU.

    Where several runs have a case, the last one counts. Raises PublishedError for a published table that is missing, and for
    runs that have none of the implementations in question.
    """
    parts: list[Part] = [Heading("Experiments", level=1), *_origin(runs)]
    for name, section in _sections(runs, published).items():
        source = published[name]
        origin = f"Profile `experiment-{name}`. Published: {source.source}; GPU: {source.gpu}; {source.what}."
        parts += [Heading(EXPERIMENTS[name].title), Lines((origin,), markdown=True), *section]
    return parts


def datasets(runs: Sequence[Run], published: Mapping[str, PublishedTable]) -> Iterator[Dataset]:
    """The findings, and the cells of the runs that they are about. Raises as `document` does."""
    sections = _sections(runs, published)
    found = [
        (name, f) for name, parts in sections.items() for p in parts if isinstance(p, FindingList) for f in p.findings
    ]
    rows = tuple((name, finding.statement, finding.holds, finding.measured) for name, finding in found)
    yield Dataset("findings", ("experiment", "statement", "holds", "measured"), rows)
    names = {row["implementation"] for row in published[_ROLES].rows}
    cases = Evidence(tuple(map(leaderboard.build, runs)), "", published[_ROLES]).cases
    yield board_datasets.cells(cell for case in cases for name, cell in case.by_implementation.items() if name in names)


def _sections(runs: Sequence[Run], published: Mapping[str, PublishedTable]) -> dict[str, list[Part]]:
    for name in (*EXPERIMENTS, _ROLES):
        if name not in published:
            raise PublishedError(f"the published figures of {name} are missing: {name}.csv")
    roles = published[_ROLES]
    roles.require(("experiment", "part", "implementation", "title"))
    boards = tuple(leaderboard.build(run) for run in runs)
    subjects = {row["implementation"] for row in roles.rows if row["part"] != "context"}
    if not any(subjects & set(case.cells) for board in boards for case in board.cases):
        raise PublishedError("none of these runs has a cell of an experiment's implementation: nothing to compare")
    for name, experiment in EXPERIMENTS.items():
        published[name].require(experiment.columns)
    return {
        name: experiment.section(Evidence(boards, name, roles), published[name])
        for name, experiment in EXPERIMENTS.items()
    }


def _origin(runs: Sequence[Run]) -> list[Part]:
    lines = []
    for run in runs:
        passport, gpu = run.passport, run.passport.device
        what = f"{gpu.get('name', 'unknown')}, driver {gpu.get('driver', 'unknown')}"
        lines.append(f"- `{passport.run_id}`: {what}, {passport.started[:10]}, clock `{passport.ranking_clock}`")
    head = "Made by `softbench experiments` from these runs; times are those of the ranking clock:"
    return [Lines((head,), markdown=True), Lines(tuple(lines), markdown=True)]
