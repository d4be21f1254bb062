"""Contests on the GPU of these tests, whose records are printed."""

from softbench.measure import device
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules


def run(pool, case, variants, budget_s=2.0, *, roofs=(), baselines=(), **rules):
    rules = Rules(**{"budget_s": budget_s, "timeout_s": 60.0, "seed": 1} | rules)
    found = Contest(rules, pool, device.gpu(), dict(roofs), dict(baselines)).run(case, variants)
    for record in found:
        said = (record.tier, record.open_because, record.reason, record.traffic or "", record.notes)
        print(case.id, record.variant.id, record.status.value, *said)
    return found


def named(*contest, **how):
    """The same by implementation."""
    return {record.variant.implementation: record for record in run(*contest, **how)}


def end_workers(pool):
    for worker in pool.living:
        worker.end()
