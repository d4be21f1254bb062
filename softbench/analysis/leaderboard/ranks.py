"""Comparisons of entrants within a heat and between heats, and the ranks of one case."""

import math
from collections.abc import Iterable, Mapping, Sequence

from softbench.analysis.leaderboard.board import CaseBoard
from softbench.model import Samples, stats

Heats = Sequence[Samples]
"""The samples of one record and one clock, one entry per heat."""


def latency_ns(heats: Heats) -> float:
    """Median over heats of the median time per launch."""
    return stats.median([stats.per_launch_ns(samples) for samples in heats])


def last_of_both(a: Heats, b: Heats) -> tuple[Samples, Samples] | None:
    """The samples of the last heat that both were in."""
    theirs = {samples.heat: samples for samples in b}
    return next(((own, theirs[own.heat]) for own in reversed(a) if own.heat in theirs), None)


def _compared(a: Heats, b: Heats) -> list[stats.Comparison]:
    return [stats.compare(x, y) for x in a for y in b if x.heat == y.heat]


def versus(a: Heats, b: Heats, anchors: Iterable[Heats] = ()) -> stats.Comparison:
    """Time of a over time of b, paired if both ran in one heat.

    Entrants of different heats are compared by their ratios to an anchor that ran in both (the roof, the reference): the mean
    of the log-ratios, with the sum of the two intervals. Such an interval can call them different, never tied. Without an
    anchor the ratio is that of the medians and the verdict is "unknown".
    """
    if pairs := _compared(a, b):
        return max(pairs, key=lambda comparison: comparison.placements)
    legs = [leg for leg in (_leg(a, b, anchor) for anchor in anchors) if leg is not None]
    if not legs:
        return stats.Comparison("unknown", latency_ns(a) / latency_ns(b), 0.0, math.inf, 0)
    ratio, low, high = (math.exp(sum(logs) / len(legs)) for logs in zip(*legs, strict=True))
    verdict = "faster" if high < 1 else "slower" if low > 1 else "unknown"
    return stats.Comparison(verdict, ratio, low, high, 0)


def _leg(a: Heats, b: Heats, anchor: Heats) -> tuple[float, float, float] | None:
    """Logs of (ratio, low, high) of time a / time b by one anchor; None if it was not in both heats."""
    over_a, over_b = _compared(anchor, a), _compared(anchor, b)
    if not over_a or not over_b:
        return None
    x, y = over_a[0], over_b[0]
    return _log(y.ratio) - _log(x.ratio), _log(y.low) - _log(x.high), _log(y.high) - _log(x.low)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def gains(cases: Iterable[CaseBoard], before: str, after: str) -> list[float]:
    """Time of one entrant over that of another, in every case where both have a time that counts."""
    pairs = [[case.cells.get(name) for name in (before, after)] for case in cases]
    times = [[cell.latency_ns if cell and not cell.is_open else None for cell in pair] for pair in pairs]
    return [slow / fast for slow, fast in times if slow and fast]


def places(contest: Mapping[str, Heats], roof: Heats, reference: Heats) -> dict[str, tuple[int, str]]:
    """Name -> (rank, mark) in one case: docs/measuring.md, "Intervals and ranks".

    Sorted by the ratio to the roof if there is one, since heats may differ in absolute speed. The head of a group gets the
    stronger of the marks of the others.
    """

    def slowness(name: str) -> tuple[float, str]:
        return (versus(contest[name], roof).ratio if roof else latency_ns(contest[name])), name

    extents = {name: stats.Extent.of(heats[0]) for name, heats in contest.items() if len(heats) == 1 and any(heats[0].ns)}

    def verdict(name: str, head: str) -> str:
        """By the extremes of a pair of one heat where these decide: that keeps a case of a thousand entrants quick."""
        are_paired = name in extents and head in extents and contest[name][0].heat == contest[head][0].heat
        if are_paired and stats.is_surely_slower(extents[name], extents[head]):
            return "slower"
        return versus(contest[name], contest[head], (roof, reference)).verdict

    placed: dict[str, tuple[int, str]] = {}
    rest = sorted(contest, key=slowness)
    while rest:
        head, verdicts = rest[0], {}
        for name in rest[1:]:
            verdicts[name] = verdict(name, head)
            if verdicts[name] == "faster":
                head, verdicts = name, {}
        verdicts |= {name: verdict(name, head) for name in rest if name != head and name not in verdicts}
        level = {name: "=" if verdicts[name] == "tied" else "?" for name in rest if verdicts.get(name, "slower") != "slower"}
        rank = len(placed) + 1
        placed[head] = rank, max(level.values(), key="?=".index, default="")
        placed.update((name, (rank, mark)) for name, mark in level.items())
        rest = [name for name in rest if name not in placed]
    return placed
