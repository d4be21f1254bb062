"""How far two runs of one GPU model agree in % of roof: `python tests/support/agreement.py RUN.jsonl RUN.jsonl`.

What must hold of two days or two machines: 95 % of the cells of at least 20 us are within 1 % of each other.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from softbench.analysis import leaderboard
from softbench.model import stats
from softbench.records import store
from softbench.records.comparable import MACHINE, differences

LEAST_NS = 20_000
WITHIN, SHARE = 0.01, 0.95


@dataclass(frozen=True)
class Agreement:
    """By (case, implementation): % of roof in the second run over that in the first; and what keeps others out."""

    ratios: dict[tuple[str, str], float]
    left_out: dict[str, int]

    @property
    def share(self):
        """Of the cells, how many are within `WITHIN`."""
        return sum(abs(ratio - 1) <= WITHIN for ratio in self.ratios.values()) / max(1, len(self.ratios))

    def text(self):
        """The figures, and the five cells that are furthest apart."""
        if not self.ratios:
            return "no cell in common"
        off = {key: abs(ratio - 1) for key, ratio in self.ratios.items()}
        far = sorted(off, key=lambda key: -off[key])[:5]
        lines = [
            f"{self.share:.1%} of {len(off)} cells agree within {WITHIN:.0%} in % of roof"
            f" ({SHARE:.0%} must); off by {stats.median(off.values()):.2%} in the middle, {max(off.values()):.2%} at most",
            *(f"  {case} / {who}: {self.ratios[case, who] - 1:+.2%}" for case, who in far),
            *(f"left out: {count} {why}" for why, count in self.left_out.items() if count),
        ]
        return "\n".join(lines)


def agreement(first, second):
    """Of what both timed by the ranking clock in at least `LEAST_NS` a launch, from the same source. Raises ValueError.

    The roof itself is left out: it stands at 100 % in both.
    """
    apart = [f"{what} {x} and {y}" for what, x, y in differences(first.passport, second.passport) if what in MACHINE]
    if apart or first.passport.ranking_clock != second.passport.ranking_clock:
        raise ValueError(f"two machines or clocks: {', '.join(apart) or 'clocks'}")
    one, other = _cells(first), _cells(second)
    ratios = {}
    left_out = dict.fromkeys(("in one run only", "of another source or variant", "below 20 us", "with a warm L2"), 0)
    left_out["in one run only"] = len(one.keys() ^ other.keys())
    for key in sorted(one.keys() & other.keys()):
        a, b = one[key], other[key]
        if (a.record.variant.source_hash, a.record.variant.params) != (
            b.record.variant.source_hash,
            b.record.variant.params,
        ):
            left_out["of another source or variant"] += 1
        elif min(a.latency_ns or 0, b.latency_ns or 0) < LEAST_NS:
            left_out["below 20 us"] += 1
        elif a.is_warm or b.is_warm:
            left_out["with a warm L2"] += 1
        else:
            ratios[key] = (b.percent_of_roof or 0) / (a.percent_of_roof or 1)
    return Agreement(ratios, left_out)


def _cells(run):
    found = {}
    for case in leaderboard.build(run).timed:
        for name, cell in {**case.references, **case.cells}.items():
            if cell.percent_of_roof is not None:
                found[case.case.id, name] = cell
    return found


if __name__ == "__main__":
    print(agreement(*(store.read(Path(path)) for path in sys.argv[1:3])).text())
