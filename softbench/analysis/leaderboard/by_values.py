"""Where a kernel's time depends on its data: the same case with other values than normal ones."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from softbench.analysis.leaderboard.board import Board, Cell
from softbench.analysis.leaderboard.formatting import plural, short

DEPENDS = 0.02
"""Smallest share by which a time must differ to be named; cases of a run are timed one after the other."""


def notes(board: Board) -> list[str]:
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
    apart = {key: found for key, own in ratios.items() if (found := [ratio for ratio in own if ratio])}
    ordered = sorted(apart, key=lambda key: (-max(abs(math.log(ratio)) for ratio in apart[key]), key[1]))
    return [_sentence(*key, apart[key], len(ratios[key])) for key in ordered]


def _sentence(operator: str, name: str, values: str, ratios: Sequence[float], pairs: int) -> str:
    """The mean of the ratios; the least and the largest where some times are shorter and some are longer."""
    ends = min(ratios), max(ratios)
    times = " to ".join(f"{x:.2f}x" for x in (ends if ends[0] < 1 < ends[1] else [statistics.geometric_mean(ratios)]))
    where = f"in {len(ratios)} of {plural(pairs, 'case')} of {operator}"
    return f"{short(name)} takes {times} as long with the values {values} as with normal ones, {where}."


def _ratio(own: Cell, normal: Cell) -> float | None:
    """The ratio of two times; None if it may be 1, or nearly is."""
    if not own.latency_ns or not normal.latency_ns:
        return None
    ratio = own.latency_ns / normal.latency_ns
    is_apart = any((a.low_ns or 0.0) > (b.high_ns or math.inf) for a, b in ((own, normal), (normal, own)))
    return ratio if is_apart and abs(math.log(ratio)) >= math.log1p(DEPENDS) else None
