"""One kernel under two names: how often they are called different, and by how much they differ."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import closing

from softbench.cases import registry
from softbench.doctor.examples import TWINS
from softbench.doctor.findings import Findings, Target
from softbench.measure import device
from softbench.measure.contest.contest import Contest, Rules
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.model import Case, Status, stats

BUDGET_S = {"cpu": 1.5, "cuda": 6.0}
"""Measuring time of a contest; eight placements of two kernels take 1 s on an H200, and most contests end there."""
ENOUGH_S = 15.0
"""No further contest is begun after so long, where their number was not given."""
AT_LEAST, AT_MOST = 2, 8
TITLE = "The same kernel under two names"
RULE = (
    f"two are tied where the interval of their ratio holds 1 and reaches at most {stats.TIE_HALF_WIDTH:.1%} to either side,"
    " different where it leaves 1 out; else it cannot be told"
)


def look(target: Target) -> Findings:
    """Contests of torch's softmax against itself; it fails where more are called different than chance explains."""
    comparisons: list[stats.Comparison] = []
    began = time.monotonic()
    wanted, kind = target.contests or AT_MOST, "cpu" if target.card is None else "cuda"
    with closing(WorkerPool(kind)) as pool:
        while len(comparisons) < wanted:
            if not target.contests and len(comparisons) >= AT_LEAST and time.monotonic() - began > ENOUGH_S:
                break
            target.progress(f"one kernel against itself, contest {len(comparisons) + 1}")
            found = contest(pool, target.card, len(comparisons))
            if isinstance(found, str):
                return Findings(TITLE, (found,), (f"one kernel against itself: {found}",))
            comparisons.append(found)
    return tell(comparisons, BUDGET_S[kind])


def contest(pool: WorkerPool, card: device.Gpu | None, number: int, *, fresh: bool = True) -> stats.Comparison | str:
    """How the twins compare in a contest, in fresh processes or in those of the last one; or why one of them did not pass."""
    for worker in pool.living if fresh else ():
        worker.end()
    case = Case("softmax", (256, 1024), "float32", "float32")
    if card is not None:  # 268 MB, about 65 us on an H200
        case = Case("softmax", (8192, 8192), "float16", "float16")
    rules = Rules(budget_s=BUDGET_S[pool.device], timeout_s=60.0, seed=number)
    records = Contest(rules, pool, card).run(case, registry.find([TWINS]))
    for record in records:
        if record.status is not Status.PASSED:
            return f"{record.variant.id} on {case.id}: {record.status.value}: {record.reason}"
    clock = "wall" if card is None else "graph"
    a, b = (record.clock(clock) for record in records)
    if not a or not b:
        return f"{case.id}: no time by the clock {clock!r}; {'; '.join(records[0].notes)}"
    return stats.compare(a[0], b[0])


def tell(comparisons: Sequence[stats.Comparison], budget_s: float) -> Findings:
    """What the comparisons of identical kernels say."""
    count = len(comparisons)
    verdicts = [c.verdict for c in comparisons]
    different = verdicts.count("faster") + verdicts.count("slower")
    off = [abs(c.ratio - 1) for c in comparisons]
    width = statistics.median(c.half_width for c in comparisons)
    lines = (
        f"called different in {different} of {count} contests, tied in {verdicts.count('tied')},"
        f" cannot tell in {verdicts.count('unknown')}",
        f"their ratio is off 1 by {statistics.median(off):.2%} in the middle, {max(off):.2%} at most",
        f"half-width of the interval: {_percent(width)} in the middle",
        f"rule: {RULE}",
        f"identical kernels may be called different once in {1 / stats.TOTAL_ERROR:.0f} contests:"
        f" of {count}, {allowed(count)} may be",
    )
    failures = []
    if different > allowed(count):
        failures.append(f"one kernel against itself: called different in {different} of {count} contests")
    trust = (
        f"ranks: kernels that differ by less than {_percent(width)} are seldom told apart here in {budget_s:g} s a case"
    )
    if width >= 1:
        trust = (
            f"ranks: nothing, in {budget_s:g} s a case: one kernel's own times are too far apart; is this machine busy?"
        )
    return Findings(TITLE, lines, tuple(failures), (trust,))


def allowed(count: int) -> int:
    """Of so many contests of identical kernels, how many may be called different: more are less likely than 1 in 100."""
    p = stats.TOTAL_ERROR
    likely = 0.0
    for number in range(count + 1):
        likely += math.comb(count, number) * p**number * (1 - p) ** (count - number)
        if likely >= 0.99:
            return number
    return count


def _percent(width: float) -> str:
    return f"{width:.2%}" if width < 1 else "100% and more"
