"""How long a case may be measured where the run has a budget too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.builders import softmax_case
from support.grids import over

from softbench.run import bench as bench_module
from softbench.run.bench import LEAST_BUDGET_S, Bench


def bench(monkeypatch: pytest.MonkeyPatch, waiting: int, spent_s: float, of_run: float, workers: str = "") -> Bench:
    """A run of cases of 10 s each that has begun a while ago; one case in two is only checked."""
    now = 1000.0
    monkeypatch.setattr(bench_module.time, "monotonic", lambda: now)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if workers:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", workers)
    cases = [softmax_case(rows, timed=timed) for rows in range(1, waiting + 1) for timed in (True, False)]
    settings = SimpleNamespace(budget_s=10.0, run_budget_s=of_run)
    journal: Any = SimpleNamespace(settings=settings, selection=None, waiting_cases=cases)
    made = Bench(journal)
    now += spent_s
    return made


@over(
    ("waiting", "spent_s", "of_run", "workers", "budget_s"),
    [
        (5, 0.0, 1000.0, "", 10.0),
        (5, 0.0, 20.0, "", 4.0),
        (5, 10.0, 20.0, "", 2.0),
        (1, 10.0, 20.0, "", 10.0),  # what others left
        (5, 30.0, 20.0, "", LEAST_BUDGET_S),
        (8, 0.0, 20.0, "4", 10.0),  # two each
        (0, 0.0, 20.0, "", 10.0),
    ],
)
def test_a_case_has_its_share_of_what_is_left(
    monkeypatch: pytest.MonkeyPatch, waiting: int, spent_s: float, of_run: float, workers: str, budget_s: float
) -> None:
    assert bench(monkeypatch, waiting, spent_s, of_run, workers)._budget_s() == pytest.approx(budget_s)
