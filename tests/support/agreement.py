"""How far two runs of one GPU model agree in % of roof: `python tests/support/agreement.py RUN.jsonl RUN.jsonl`.

What must hold of two days or two machines: 95 % of the cells of at least 20 us are within 1 % of each other.
"""

import sys
from collections import Counter
from pathlib import Path

from softbench.analysis import leaderboard
from softbench.model import stats
from softbench.records import store
from softbench.records.comparable import MACHINE, differences

LEAST_NS = 20_000
WITHIN, SHARE = 0.01, 0.95


def compared(first, second):
    """By cell, of what both timed by the ranking clock: % of roof in the second run over that in the first, or why it is left out.

    The roof itself has no part: it stands at 100 % in both. Raises ValueError.
    """
    apart = [f"{what} {x} and {y}" for what, x, y in differences(first.passport, second.passport) if what in MACHINE]
    if apart or first.passport.ranking_clock != second.passport.ranking_clock:
        raise ValueError(f"two machines or clocks: {', '.join(apart) or 'clocks'}")
    one, other = _cells(first), _cells(second)
    return {key: _compared(one.get(key), other.get(key)) for key in sorted(one.keys() | other.keys())}


def _compared(a, b):
    if a is None or b is None:
        return "in one run only"
    if len({(cell.record.variant.source_hash, cell.record.variant.params) for cell in (a, b)}) > 1:
        return "of another source or variant"
    if min(a.latency_ns or 0, b.latency_ns or 0) < LEAST_NS:
        return "below 20 us"
    return "with a warm L2" if a.is_warm or b.is_warm else b.percent_of_roof / a.percent_of_roof


def _cells(run):
    found = ((case, {**case.references, **case.cells}) for case in leaderboard.build(run).timed)
    return {
        f"{case.case.id} / {name}": cell
        for case, cells in found
        for name, cell in cells.items()
        if cell.percent_of_roof is not None
    }


def text(cells):
    """The figures, and the five cells that are furthest apart."""
    off = {key: ratio - 1 for key, ratio in cells.items() if not isinstance(ratio, str)}
    if not off:
        return "no cell in common"
    by = sorted(off, key=lambda key: -abs(off[key]))
    middle, share = stats.median(map(abs, off.values())), sum(abs(d) <= WITHIN for d in off.values()) / len(off)
    left_out = Counter(why for why in cells.values() if isinstance(why, str))
    lines = [
        f"{share:.1%} of {len(off)} cells agree within {WITHIN:.0%} in % of roof"
        f" ({SHARE:.0%} must); off by {middle:.2%} in the middle, {abs(off[by[0]]):.2%} at most",
        *(f"  {key}: {off[key]:+.2%}" for key in by[:5]),
        *(f"left out: {count} {why}" for why, count in left_out.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(text(compared(*(store.read(Path(path)) for path in sys.argv[1:3]))))
