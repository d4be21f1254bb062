"""What runs say about one question: figures by case and implementation, and the words for what they mean. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softbench.analysis import leaderboard
from softbench.analysis.leaderboard import Board, CaseBoard, Cell
from softbench.model import Status


@dataclass(frozen=True)
class Evidence:
    """Boards of runs; where two of them have a case, the later one speaks for it."""

    boards: tuple[Board, ...]

    @property
    def cases(self) -> tuple[CaseBoard, ...]:
        """The timed and untimed cases of all runs, each once."""
        found = {case.case.id: case for board in self.boards for case in board.cases}
        return tuple(found.values())

    def case(self, case_id: str) -> CaseBoard | None:
        return next((case for case in self.cases if case.case.id == case_id), None)

    def cell(self, case_id: str, implementation: str) -> Cell | None:
        """What an implementation did on a case, as an entrant or beside the others; None where it did not run."""
        case = self.case(case_id)
        return None if case is None else cell_of(case, implementation)

    def floor_ns(self, case_id: str, streams: float) -> float | None:
        """Time of moving so many times the row at the rate of the roof, which reads once and writes once."""
        case = self.case(case_id)
        roof = case.roof.latency_ns if case is not None and case.roof is not None else None
        return None if roof is None else roof * streams / 2


def cell_of(case: CaseBoard, implementation: str) -> Cell | None:
    return case.cells.get(implementation) or case.references.get(implementation)


@dataclass(frozen=True)
class Finding:
    """A statement about a GPU and whether it is so here: `holds` is None where the runs cannot tell."""

    statement: str
    holds: bool | None
    measured: str = ""

    def __str__(self) -> str:
        word = {True: "holds here", False: "does not hold here", None: "not decided here"}[self.holds]
        return f"- {self.statement} **{word[0].upper()}{word[1:]}**" + (f": {self.measured}." if self.measured else ".")


def finding(statement: str, parts: Sequence[bool | None], measured: str = "") -> Finding:
    """Holds where every part does; not decided where one is missing and none speaks against it."""
    known = [part for part in parts if part is not None]
    if not all(known):
        return Finding(statement, False, measured)
    whole = bool(parts) and len(known) == len(parts)
    return Finding(statement, True if whole else None, measured)


def latency_ms(cell: Cell | None) -> str:
    """Milliseconds, the status where there is no time, or "not run"."""
    if cell is None:
        return "not run"
    if cell.latency_ns is None:
        return cell.status.value if cell.status is not Status.PASSED else "not timed"
    return f"{cell.latency_ns / 1e6:.4f}"


def factor(slow: Cell | None, fast: Cell | None) -> float | None:
    """Time of one over time of the other, paired where they ran in one heat; None where either has no time."""
    if slow is None or fast is None or not slow.samples or not fast.samples:
        return None
    return leaderboard.versus(slow.samples, fast.samples).ratio


def is_faster(cell: Cell | None, than: Cell | None) -> bool | None:
    """Whether the difference is beyond doubt; None where either has no time."""
    if cell is None or than is None or not cell.samples or not than.samples:
        return None
    return leaderboard.versus(cell.samples, than.samples).verdict == "faster"


def spread(values: Sequence[float | None], form: str) -> str:
    """'1.20 to 3.40' of those that are known, in a format such as '{:.2f}'."""
    known = [value for value in values if value is not None]
    if not known:
        return "nothing was measured"
    low, high = form.format(min(known)), form.format(max(known))
    return low if low == high else f"{low} to {high}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; "|" in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
