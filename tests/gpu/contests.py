"""Contests on the GPU of these tests, whose records are printed."""

from collections.abc import Sequence
from typing import Any

from softbench.measure import device
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.model import Case, Record, Variant


def run(
    pool: WorkerPool, case: Case, variants: Sequence[Variant], budget_s: float = 2.0, roofs: Any = None
) -> list[Record]:
    found = Contest(Rules(budget_s=budget_s, timeout_s=60.0, seed=1), pool, device.gpu(), roofs or {}).run(
        case, variants
    )
    for record in found:
        print(case.id, record.variant.id, record.status.value, record.tier, record.open_because, record.reason)
    return found


def end_workers(pool: WorkerPool) -> None:
    for worker in pool.living:
        worker.end()
