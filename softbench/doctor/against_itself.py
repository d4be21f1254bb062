"""One kernel under two names: how often a contest calls them different, and by how much they differ."""

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple
from itertools import accumulate

from softbench.analysis.document import Dataset
from softbench.cases import registry
from softbench.doctor.examples import TWINS
from softbench.doctor.findings import Findings, Target
from softbench.measure import device
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.model import Case, Status, stats

BUDGET_S = {"cpu": 1.5, "cuda": 6.0}
"""Measuring time of a contest; on an H200 eight placements of two kernels take 1 s, and end most contests."""
ENOUGH_S = 15.0
"""No further contest starts after this time, unless their number was given."""
AT_LEAST, AT_MOST = 2, 8
TITLE = "The same kernel under two names"
RULE = (
    f"two are tied if the interval of their ratio contains 1 and reaches at most {stats.TIE_HALF_WIDTH:.1%} to either side,"
    " different if it excludes 1; else the contest cannot tell"
)


def look(target: Target) -> Findings:
    """Contests of torch's softmax against itself; a failure if more are called different than chance explains."""
    comparisons: list[stats.Comparison] = []
    began = time.monotonic()
    wanted, kind = target.contests or AT_MOST, "cpu" if target.card is None else "cuda"
    with closing(WorkerPool(kind)) as pool:
        while len(comparisons) < wanted:
            if not target.contests and len(comparisons) >= AT_LEAST and time.monotonic() - began > ENOUGH_S:
                break
            target.progress(f"one kernel against itself, contest {len(comparisons) + 1}")
            result = contest(pool, target.card, len(comparisons))
            if isinstance(result, str):
                return Findings(TITLE, (result,), (f"one kernel against itself: {result}",))
            comparisons.append(result)
    return tell(comparisons, BUDGET_S[kind])


def contest(pool: WorkerPool, card: device.Gpu | None, number: int, *, fresh: bool = True) -> stats.Comparison | str:
    """The comparison of the twins in a contest, in new processes or in those of the last one; or why one did not pass."""
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
    count = len(comparisons)
    verdicts = [c.verdict for c in comparisons]
    different = verdicts.count("faster") + verdicts.count("slower")
    off = [abs(c.ratio - 1) for c in comparisons]
    width = statistics.median(c.half_width for c in comparisons)
    said = f"called different in {different} of {count} contests"
    lines = (
        f"{said}, tied in {verdicts.count('tied')}, cannot tell in {verdicts.count('unknown')}",
        f"their ratio is off 1 by {statistics.median(off):.2%} in the median, {max(off):.2%} at most",
        f"half-width of the interval: {_percent(width)} in the median",
        f"rule: {RULE}",
        f"identical kernels may be called different once in {1 / stats.TOTAL_ERROR:.0f} contests:"
        f" here {allowed(count)} of {count} would still pass",
    )
    failures = (f"one kernel against itself: {said}",) if different > allowed(count) else ()
    trust = f"ranks: in {budget_s:g} s per case, kernels that differ by less than {_percent(width)} are rarely distinguished"
    if width >= 1:
        trust = f"ranks: none in {budget_s:g} s per case: one kernel's own times vary too much; is this machine busy?"
    data = Dataset("contests", ("verdict", "ratio", "low", "high", "placements"), tuple(map(astuple, comparisons)))
    return Findings(TITLE, lines, failures, (trust,), (data,))


def allowed(count: int) -> int:
    """How many of `count` contests may call identical kernels different: more are less likely than 1 in 100."""
    p = stats.TOTAL_ERROR
    likely = accumulate(math.comb(count, number) * p**number * (1 - p) ** (count - number) for number in range(count + 1))
    return next(number for number, share in enumerate(likely) if share >= 0.99)


def _percent(width: float) -> str:
    return f"{width:.2%}" if width < 1 else "100% and more"
