"""Where an implementation loses, by how much, and what the records say of both kernels there."""

from collections.abc import Iterator
from dataclasses import dataclass

from softbench.analysis.leaderboard import counters, estimates
from softbench.analysis.leaderboard.board import Board, CaseBoard, Cell
from softbench.analysis.leaderboard.formatting import microseconds, resources, short
from softbench.analysis.leaderboard.ranks import versus
from softbench.analysis.leaderboard.tiers import scored_of
from softbench.model import stats

PARTS, WARPS, FEWER, MORE = 4, 64, 0.75, 1.05
"""Of a multiprocessor; a smaller share of the other's warps, and a larger one of its traffic, are differences."""
PART_REGISTERS, UNIT = 16384, 8
"""Of a part; a warp takes whole units for each of its 32 threads."""


@dataclass(frozen=True)
class Loss:
    """A case, the fastest of it, the time over its time, and how the two kernels differ."""

    case: CaseBoard
    cell: Cell
    rival: str
    ratio: stats.Comparison
    why: tuple[str, ...]

    @property
    def sure(self) -> float:
        """The least loss that the placements allow."""
        found = estimates.mean([self.ratio])
        return max(found.low, 1.0) if found else 1.0


@dataclass(frozen=True)
class Against:
    """One implementation beside another: in how many of their common cases it is slower, its time over the other's, the most."""

    rival: str
    slower: int
    ratios: tuple[tuple[CaseBoard, stats.Comparison], ...]

    @property
    def most(self) -> tuple[CaseBoard, stats.Comparison]:
        return max(self.ratios, key=lambda pair: pair[1].ratio)


def against(board: Board, operator: str, name: str) -> list[Against]:
    """It beside every other one that has a time in one of its cases, in the order of the ranking."""
    found = []
    cases = [case for case in scored_of(board, operator) if _has_time(case.cells.get(name))]
    for rival in (standing.implementation for standing in board.standings(operator) if standing.implementation != name):
        common = [case for case in cases if _has_time(case.cells.get(rival))]
        ratios = tuple((case, _beside(case, case.cells[name], case.cells[rival])) for case in common)
        if ratios:
            found.append(Against(rival, sum(ratio.verdict == "slower" for _, ratio in ratios), ratios))
    return found


def _has_time(cell: Cell | None) -> bool:
    return cell is not None and bool(cell.samples) and not cell.is_open


def _beside(case: CaseBoard, own: Cell, other: Cell) -> stats.Comparison:
    return versus(own.samples, other.samples, [case.roof.samples if case.roof else ()])


def losses(board: Board, operator: str, name: str) -> list[Loss]:
    """All cases in which it has a time and is not among the first: the largest loss that the placements leave no doubt of first."""
    found = []
    for case in scored_of(board, operator):
        own = case.cells.get(name)
        first = [(cell.latency_ns, who) for who, cell in case.cells.items() if cell.rank == 1 and cell.latency_ns]
        if own is None or not _has_time(own) or own.rank == 1 or not first:
            continue
        rival = min(first)[1]
        best = case.cells[rival]
        found.append(Loss(case, own, rival, _beside(case, own, best), tuple(_differences(own, best, short(rival)))))
    return sorted(found, key=lambda loss: (-loss.sure, -loss.ratio.ratio))


def _differences(own: Cell, best: Cell, rival: str) -> Iterator[str]:
    """What was counted of both and differs. A difference is not yet the cause."""
    counted = counters.differences(own.record.traffic, best.record.traffic, rival)
    yield from (found.text for found in counted)
    mine, theirs = own.traffic_factor, best.traffic_factor
    if mine and mine > MORE * (theirs or 1) and not any(found.moves for found in counted):
        yield f"moves {mine:.2f}× the ideal bytes" + (f", {rival} {theirs:.2f}×" if theirs else "")
    (registers, spilled, _), (others, kept, _) = ([size or 0 for size in resources(cell.record)] for cell in (own, best))
    if spilled > kept and not any(found.cause == "spills" for found in counted):
        yield f"{spilled} B of stack (spills)"
    if min(registers, others) > 0 and _warps(registers) < FEWER * _warps(others):
        yield f"{registers} registers allow {_warps(registers)} of {WARPS} warps, {rival}'s {others} allow {_warps(others)}"
    if own.call_ns and _is_host_bound(own) and not _is_host_bound(best):
        yield f"called from Python it waits for the host, {microseconds(own.call_ns)} µs, and {rival} does not"


def _is_host_bound(cell: Cell) -> bool:
    return bool(cell.call_ns and cell.latency_ns and cell.call_ns > cell.latency_ns)


def _warps(registers: int) -> int:
    return min(WARPS, PARTS * (PART_REGISTERS // (-(-registers // UNIT) * UNIT * 32)))
