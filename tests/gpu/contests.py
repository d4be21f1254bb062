"""Contests on the GPU of these tests, whose records are printed."""

from softbench.measure import device
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules


def run(pool, case, variants, budget_s=2.0, roofs=None):
    found = Contest(Rules(budget_s=budget_s, timeout_s=60.0, seed=1), pool, device.gpu(), roofs or {}).run(
        case, variants
    )
    for record in found:
        print(case.id, record.variant.id, record.status.value, record.tier, record.open_because, record.reason)
    return found


def end_workers(pool):
    for worker in pool.living:
        worker.end()
