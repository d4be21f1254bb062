"""On a real GPU: identical kernels tie, a kernel that does 2 % more work loses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from softbench import device, registry, resources, stats
from softbench.contest.contest import Contest, Rules
from softbench.contest.crew import Crew
from softbench.model import Case, Status, Variant

pytestmark = pytest.mark.gpu

TWINS = {v.implementation: v for v in registry.find([Path(__file__).parent / "twins"])}
CASE = Case("softmax", (8192, 4096), "float16", "float16")


def verdict(crew: Crew, number: int, first: Variant, second: Variant) -> str:
    """How the first stands to the second in a contest of its own."""
    contest = Contest(Rules(budget_s=20.0, seed=number), crew, device.gpu())
    records = {r.variant.implementation: r for r in contest.run(CASE, [first, second])}
    assert {r.status for r in records.values()} == {Status.PASSED}
    a, b = (records[v.implementation].clock("graph")[0] for v in (first, second))
    return stats.compare(a, b).verdict


def test_what_does_not_fit_together_runs_in_heats_with_the_baseline_in_each(crew: Crew) -> None:
    """17 GB move at a launch: two placements of four entrants are more than a card of 141 GB holds."""
    eager = registry.find([resources.bundled_impls()])
    baseline = next(v for v in eager if v.implementation == "torch_eager")
    case = Case("softmax", (1 << 19, 8192), "float16", "float16")
    contest = Contest(Rules(budget_s=5.0, seed=3), crew, device.gpu(), baselines={"softmax": baseline})
    records = {r.variant.implementation: r for r in contest.run(case, list(TWINS.values()))}
    assert {r.status for r in records.values()} == {Status.PASSED}
    heats = {name: {s.heat for s in r.clock("graph")} for name, r in records.items()}
    assert len(heats["torch_eager"]) >= 2
    assert set().union(*(heats[name] for name in TWINS)) == heats["torch_eager"]
    assert all(len(heats[name]) == 1 for name in TWINS)


def test_the_same_kernel_under_two_names_ties(crew: Crew) -> None:
    verdicts = Counter(verdict(crew, i, TWINS["twin_a"], TWINS["twin_b"]) for i in range(100))
    print(dict(verdicts))
    assert verdicts["faster"] + verdicts["slower"] <= 3


def test_two_percent_more_work_loses_every_time(crew: Crew) -> None:
    verdicts = Counter(verdict(crew, 1000 + i, TWINS["twin_slow"], TWINS["twin_a"]) for i in range(20))
    print(dict(verdicts))
    assert verdicts == {"slower": 20}
