"""On a real GPU: the counters of kernels whose traffic is known."""

from __future__ import annotations

import dataclasses

import pytest

from softbench import resources
from softbench.cases import registry
from softbench.measure import device, roof
from softbench.measure.contest import traffic
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.measuring import Rules
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.plans import plan_graph
from softbench.model import Case, Traffic

pytestmark = pytest.mark.gpu

CASES = [Case("softmax", (8192, columns), "float16", "float16") for columns in (1024, 4096, 16384)]


def counted(case: Case) -> Traffic:
    card = device.gpu()
    assert card is not None
    half = 2 * case.elements
    copy = Entrant(roof.variants("copy", "cuda")[0], "roof")
    calls = traffic.calls_for(2 * half, card.l2_bytes)
    plan = plan_graph(half, half, card.l2_bytes, card.peak_gb_s)
    return traffic.measure(case, copy, plan, calls, seed=1, timeout_s=120)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_copy_moves_every_byte_once(case: Case) -> None:
    found = counted(case)
    print(found)
    assert found.read_bytes == pytest.approx(2 * case.elements, rel=0.03)
    assert found.written_bytes == pytest.approx(2 * case.elements, rel=0.05)


def test_contest_counts_for_everybody(pool: WorkerPool) -> None:
    eager = next(v for v in registry.find([resources.bundled_impls()]) if v.implementation == "torch_eager")
    rules = dataclasses.replace(Rules(budget_s=2.0, seed=3), traffic=True)
    contest = Contest(rules, pool, device.gpu(), roofs={"softmax": roof.variants("copy", "cuda")})
    records = contest.run(CASES[1], [eager])
    assert [r.notes for r in records if r.traffic is None] == []
    assert all(0.9 < (r.traffic.read_bytes + r.traffic.written_bytes) / r.ideal_bytes < 2 for r in records if r.traffic)
