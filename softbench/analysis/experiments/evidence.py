"""What runs say about one experiment: figures by case and implementation, and the words for what they mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softbench.analysis import leaderboard
from softbench.analysis.document import Lines
from softbench.analysis.leaderboard import Board, CaseBoard, Cell, tiers
from softbench.model import OPEN, Status, stats
from softbench.records.published import PublishedError, PublishedTable


@dataclass(frozen=True)
class Evidence:
    """Boards of runs, and which implementation plays which part. If two boards have the same case, the later one counts."""

    boards: tuple[Board, ...]
    experiment: str
    roles: PublishedTable

    def playing(self, part: str) -> dict[str, str]:
        """Implementation -> its title, of those that play a part. Raises PublishedError where none does."""
        rows = [row for row in self.roles.rows if (row["experiment"], row["part"]) == (self.experiment, part)]
        if not rows:
            raise PublishedError(f"experiments.csv: names no {part!r} of the experiment {self.experiment}")
        return {row["implementation"]: row["title"] for row in rows}

    def player(self, part: str) -> str:
        """The first implementation that plays a part. Raises PublishedError where none does."""
        return next(iter(self.playing(part)))

    @property
    def cases(self) -> tuple[CaseBoard, ...]:
        """The timed and untimed cases of all runs, each once."""
        return tuple({case.case.id: case for board in self.boards for case in board.cases}.values())

    def case(self, case_id: str) -> CaseBoard | None:
        return next((case for case in self.cases if case.case.id == case_id), None)

    def cell(self, case_id: str, implementation: str) -> Cell | None:
        """What an implementation did on a case, as an entrant or as a reference; None where it did not run."""
        case = self.case(case_id)
        return None if case is None else case.by_implementation.get(implementation)

    def floor_ns(self, case_id: str, streams: float) -> float | None:
        """Time of moving each row `streams` times at the rate of the roof, which moves it twice: one read, one write."""
        case = self.case(case_id)
        roof = case.roof.latency_ns if case is not None and case.roof is not None else None
        return None if roof is None else roof * streams / 2


@dataclass(frozen=True)
class Finding:
    """A statement about a GPU and whether it is true here: `holds` is None where the runs cannot tell."""

    statement: str
    holds: bool | None
    measured: str = ""

    def __str__(self) -> str:
        word = {True: "Holds here", False: "Does not hold here", None: "Not decided here"}[self.holds]
        return f"- {self.statement} **{word}**" + (f": {self.measured}." if self.measured else ".")


@dataclass(frozen=True)
class FindingList(Lines):
    """A list of findings as Markdown."""

    findings: tuple[Finding, ...] = ()


def listed(findings: Iterable[Finding]) -> FindingList:
    kept = tuple(findings)
    return FindingList(tuple(map(str, kept)), markdown=True, findings=kept)


def finding(statement: str, parts: Sequence[bool | None], measured: str = "") -> Finding:
    """True where every part is; false where one is false; else not decided."""
    if any(part is False for part in parts):
        return Finding(statement, False, measured)
    return Finding(statement, True if parts and None not in parts else None, measured)


def latency_ms(cell: Cell | None) -> str:
    """Milliseconds, with a mark if it is open and not ranked; the status where there is no time, or "not run"."""
    if cell is None:
        return "not run"
    if cell.latency_ns is None:
        return cell.status.value if cell.status is not Status.PASSED else "not timed"
    return f"{cell.latency_ns / 1e6:.4f}" + f" {OPEN}" * cell.is_open


def factor(slow: Cell | None, fast: Cell | None) -> float | None:
    """Time of one over time of the other, paired where they ran in one heat; None where they cannot be compared."""
    found = _versus(slow, fast)
    return found.ratio if found else None


def is_faster(cell: Cell | None, than: Cell | None) -> bool | None:
    """Whether the difference is beyond doubt; None where they cannot be compared."""
    found = _versus(cell, than)
    return found.verdict == "faster" if found else None


def _versus(a: Cell | None, b: Cell | None) -> stats.Comparison | None:
    """None where either has no time, or only one a sealed one."""
    if a is None or b is None or not a.samples or not b.samples or tiers.apart(a.record, b.record):
        return None
    return leaderboard.versus(a.samples, b.samples)


def spread(values: Sequence[float | None], form: str) -> str:
    """'1.20 to 3.40' of those that are known, in a format such as '{:.2f}'."""
    known = [value for value in values if value is not None]
    if not known:
        return "nothing was measured"
    low, high = form.format(min(known)), form.format(max(known))
    return low if low == high else f"{low} to {high}"
