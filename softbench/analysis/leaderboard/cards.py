"""How much the cards of a run differ, from the few cases that all of them measured."""

import math
import statistics

from softbench.analysis.leaderboard.formatting import plural
from softbench.analysis.leaderboard.ranks import latency_ns
from softbench.model import Case, Run, stats


def differences(run: Run) -> tuple[str, ...]:
    """A sentence for each card but the first, the most different first.

    The interval is over the cases, at least two; of each counts the mean over the kernels that both cards timed.
    """
    times: dict[str, dict[Case, dict[tuple[str, str], float]]] = {}
    crossed = {record.case for record in run.repeats}
    for record in (*run.repeats, *run.records):
        if record.gpu and record.case in crossed and (heats := record.clock(run.passport.ranking_clock)):
            kernel = record.variant.operator, record.variant.id
            times.setdefault(record.gpu, {}).setdefault(record.case, {})[kernel] = math.log(latency_ns(heats))
    first, *others = sorted(times) or [""]
    found: dict[str, float] = {}
    for card in others:
        pairs = [(times[first][case], own) for case, own in times[card].items() if case in times[first]]
        gains = [[a[kernel] - b[kernel] for kernel in a.keys() & b.keys()] for a, b in pairs]
        if len(logs := [statistics.fmean(own) for own in gains if own]) > 1:
            found[_sentence(card, first, logs)] = abs(sum(logs))
    return tuple(sorted(found, key=lambda text: -found[text]))


def _sentence(card: str, first: str, logs: list[float]) -> str:
    word, sign = ("faster", 1) if sum(logs) >= 0 else ("slower", -1)
    seen = stats.compare_logs([sign * log for log in logs])
    percent, low, high = (f"{100 * (ratio - 1):.1f}" for ratio in (seen.ratio, seen.low, seen.high))
    one, other = (name[:12] if name.startswith(("GPU-", "MIG-")) else name for name in (card, first))
    return f"{one} is {percent} % {word} than {other} [{low}, {high}], from {plural(len(logs), 'case')}"
