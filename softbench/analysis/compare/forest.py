"""The rows of a forest plot of two runs: each implementation over all cells, then the cells that changed most."""

from collections.abc import Iterable
from dataclasses import dataclass

from softbench.analysis.compare import Move
from softbench.analysis.leaderboard import estimates
from softbench.analysis.leaderboard.estimates import ERROR, OF_A_CASE, Estimate
from softbench.analysis.leaderboard.formatting import plural, short
from softbench.model import stats

MOST_CELLS = 30


@dataclass(frozen=True)
class Forest:
    """Names and times over the roof's, after over before; note says which."""

    rows: tuple[tuple[str, Estimate], ...]
    note: str


def forest(moves: Iterable[Move]) -> Forest:
    own: dict[str, list[stats.Comparison]] = {}
    cells: list[tuple[str, Estimate]] = []
    for move in moves:
        if change := move.change:
            own.setdefault(move.implementation, []).append(change)
            if move.is_changed:
                name = f"{move.case.id}, {short(move.implementation)}"
                cells.append((name, Estimate(change.ratio, change.low, change.high)))
    found = ((f"{short(n)}: all {len(own[n])}", estimates.mean(own[n])) for n in sorted(own) if own[n][1:])
    means = [(name, mean) for name, mean in found if mean]
    cells.sort(key=lambda row: min(row[1].value, 1 / row[1].value))
    shown = f"the {MOST_CELLS} largest of {len(cells)}" if len(cells) > MOST_CELLS else f"all {len(cells)}"
    parts = [f"{plural(len(means), 'mean')} ({100 * (1 - ERROR):.0f} % intervals)"] * bool(means)
    parts += [f"{shown} changed cells (intervals that err in 1 of {1 / OF_A_CASE:.0f})"] * bool(cells)
    return Forest((*means, *cells[:MOST_CELLS]), f"Left of 1 is faster. {', then '.join(parts)}.")
