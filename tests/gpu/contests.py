"""Contests on the GPU of these tests, whose records are printed, and who meets in them."""

from pathlib import Path

from support.builders import softmax_case

from softbench import resources
from softbench.cases import registry
from softbench.measure import device
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules
from softbench.measure.plans import plan_graph

HERE = Path(__file__).parent
BUNDLED = registry.find([resources.bundled_impls()])
TWINS = {v.implementation: v for v in registry.find([HERE / "twins"])}
CASE = softmax_case(8192, 8192)
"""268 MB, about 65 us on an H200."""


def run(pool, case, variants, budget_s=2.0, *, roofs=(), baselines=(), **rules):
    rules = Rules(**{"budget_s": budget_s, "timeout_s": 60.0, "seed": 1} | rules)
    found = Contest(rules, pool, device.gpu(), dict(roofs), dict(baselines)).run(case, variants)
    for record in found:
        said = (record.tier, record.open_because, record.reason, record.traffic or "", record.notes)
        print(case.id, record.variant.id, record.status.value, *said)
    return found


def named(*contest, **how):
    return {record.variant.implementation: record for record in run(*contest, **how)}


def plan_of(case):
    card, half = device.gpu(), 2 * case.elements
    return plan_graph(half, half, card.l2_bytes, card.peak_gb_s)


def end_workers(pool):
    for worker in pool.living:
        worker.end()
