"""The rows of a forest plot of two runs: each implementation over all cells, then the cells that changed most. Pure."""

from collections.abc import Iterable

from softbench.analysis.compare import Move
from softbench.analysis.leaderboard import estimates
from softbench.analysis.leaderboard.estimates import Estimate
from softbench.analysis.leaderboard.formatting import short
from softbench.model import stats

MOST_CELLS = 30


def rows(moves: Iterable[Move]) -> list[tuple[str, Estimate]]:
    """Name and time over the roof's, after over before, with its interval."""
    own: dict[str, list[stats.Comparison]] = {}
    cells: list[tuple[str, Estimate]] = []
    for move in moves:
        if change := move.change:
            own.setdefault(move.implementation, []).append(change)
            if move.verdict in ("slower", "faster"):
                name = f"{move.case.id}, {short(move.implementation)}"
                cells.append((name, Estimate(change.ratio, change.low, change.high)))
    means = (
        (f"{short(name)}: all {len(changes)}", estimates.mean(changes))
        for name, changes in sorted(own.items())
        if changes[1:]
    )
    cells.sort(key=lambda row: min(row[1].value, 1 / row[1].value))
    return [*((name, mean) for name, mean in means if mean), *cells[:MOST_CELLS]]
