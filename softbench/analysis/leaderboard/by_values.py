"""Where a kernel's time depends on its data: the same case with other values than normal ones."""

import math
import statistics
from dataclasses import dataclass, replace

from softbench.analysis.leaderboard.board import Board, Cell
from softbench.analysis.leaderboard.formatting import plural, short

DEPENDS = 0.02
"""Smallest share by which a time must differ to be named; cases of a run are timed one after the other."""


@dataclass(frozen=True)
class Dependence:
    """An implementation's times with a distribution over those with normal values, of each pair of cases that is apart."""

    operator: str
    implementation: str
    distribution: str
    ratios: tuple[float, ...]
    pairs: int

    @property
    def times(self) -> str:
        """Their mean; the least and the largest where some are shorter and some are longer."""
        ends = min(self.ratios), max(self.ratios)
        return " to ".join(f"{x:.2f}x" for x in (ends if ends[0] < 1 < ends[1] else [statistics.geometric_mean(self.ratios)]))


def found(board: Board) -> list[Dependence]:
    """Who depends on which values, the largest ratios first: the intervals are apart, and times by at least `DEPENDS`."""
    cases = {case.case: case for case in board.timed}
    ratios: dict[tuple[str, str, str], list[float | None]] = {}
    for case, own in cases.items():
        normal = cases.get(replace(case, distribution="normal"))
        if normal is None or normal is own:
            continue
        for name in own.cells.keys() & normal.cells.keys():
            key = case.operator, name, case.distribution
            ratios.setdefault(key, []).append(_ratio(own.cells[name], normal.cells[name]))
    apart = {key: [ratio for ratio in own if ratio] for key, own in ratios.items()}
    named = [Dependence(*key, tuple(own), len(ratios[key])) for key, own in apart.items() if own]
    return sorted(named, key=lambda one: (-max(abs(math.log(r)) for r in one.ratios), one.implementation))


def notes(board: Board) -> list[str]:
    return [
        f"{short(one.implementation)} takes {one.times} as long with the values "
        f"{one.distribution} as with normal ones, in {len(one.ratios)} of {plural(one.pairs, 'case')} of {one.operator}."
        for one in found(board)
    ]


def _ratio(own: Cell, normal: Cell) -> float | None:
    """The ratio of two times; None if it may be 1, or nearly is."""
    if not own.latency_ns or not normal.latency_ns:
        return None
    ends = (own.low_ns, own.high_ns, normal.low_ns, normal.high_ns)
    if not all(end is not None and math.isfinite(end) for end in ends):
        return None
    low, high, normal_low, normal_high = map(float, ends)  # type: ignore[arg-type]
    ratio = own.latency_ns / normal.latency_ns
    is_apart = (low > normal_high or high < normal_low) and abs(math.log(ratio)) >= math.log1p(DEPENDS)
    return ratio if is_apart else None
