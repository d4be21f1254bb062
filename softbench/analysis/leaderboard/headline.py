"""A run in one sentence: the leader, or why there is none. One rule for terminal, page, export and badge."""

from __future__ import annotations

from softbench.analysis.leaderboard.board import Board, Standing
from softbench.analysis.leaderboard.formatting import failures, half_width, outcome_counts, plural, short
from softbench.analysis.leaderboard.tiers import scored_of
from softbench.model import stats


def verdict(board: Board) -> str:
    """One sentence per operator; the first names the machine."""
    where = f" on {short(str(board.passport.device.get('name', 'this machine')), 60)}"
    sentences = [_verdict(board, operator, "" if number else where) for number, operator in enumerate(board.operators)]
    return " ".join(sentences) or "The run holds no cells."


def leader(board: Board, operator: str) -> Standing | None:
    """The leader of an operator: the best score, if it is known to be the fastest, or tied for it, in at least one case.

    Without rivals, the only one that is ranked. None if nobody leads.
    """
    first = best(board, operator)
    if first is None or first.wins or first.ties or not contested(board, operator):
        return first
    return None


def best(board: Board, operator: str) -> Standing | None:
    """The best score among those that are ranked; None if nobody is."""
    return next((standing for standing in board.standings(operator) if standing.rank is not None), None)


def contested(board: Board, operator: str) -> int:
    """The number of cases that count in which two or more were ranked."""
    ranked = (sum(cell.rank is not None for cell in c.cells.values()) for c in scored_of(board, operator))
    return sum(count > 1 for count in ranked)


def undecided(board: Board, operator: str) -> str:
    """Why an operator with scores has no leader, in words that follow "X scores best, 12.3, but"."""
    cells = [cell for case in scored_of(board, operator) for cell in case.cells.values() if cell.rank]
    unknown = sum(cell.mark == "?" for cell in cells)
    timed = plural(max(standing.timed for standing in board.standings(operator)), "case")
    if not any(cell.rank == 1 and cell.mark == "?" for cell in cells):
        return f"is the fastest in none of {timed}"
    spread = half_width(stats.median([half for cell in cells if (half := cell.half_width) is not None] or [0.0]))
    return (
        f"is in none of {timed} known to be the fastest: {unknown} of {len(cells)} ranks are undecided "
        f"(?), times are known to {spread}"
    )


def undecided_note(board: Board) -> str:
    """A note for operators with scores and without a leader; "" if there are none."""
    leaderless = [o for o in board.operators if best(board, o) is not None and leader(board, o) is None]
    return " ".join(_verdict(board, operator, "") for operator in leaderless)


def _verdict(board: Board, operator: str, where: str) -> str:
    standings = board.standings(operator)
    if all(standing.score is None for standing in standings):
        total = [sum(column) for column in zip(*(outcome_counts(board, s) for s in standings), strict=True)] or [0] * 6
        right, failed = sum(total[:3]), failures(total[3], total[4])
        return f"Nothing of {operator} was timed: {plural(right, 'cell')} right, {failed}, {total[5]} refused."
    first = best(board, operator)
    if first is None:
        return f"Nobody leads {operator}: every timed implementation fails a hard case or timed calls (†)."
    who = short(first.implementation)
    if leader(board, operator) is None:
        return (
            f"Nobody leads {operator}{where}: {who} scores best, {first.score:.1f}, but {undecided(board, operator)}."
        )
    baseline = first.implementation == board.baseline or first.speedup is None
    speedup = "" if baseline else f", {first.speedup:.2f}x {short(board.baseline)}"
    if not contested(board, operator):
        return f"{who} alone was ranked of {operator}{where}: score {first.score:.1f}{speedup}."
    ties = f" and tied for it in {first.ties}" if first.ties else ""
    won = f"alone the fastest in {first.wins}{ties} of {plural(first.timed, 'case')}"
    return f"{who} leads {operator}{where}: score {first.score:.1f}{speedup}, {won}."
