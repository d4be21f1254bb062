"""What a board holds: frozen data, made by `softbench.analysis.leaderboard.build` and read by every renderer."""

from __future__ import annotations

from dataclasses import dataclass, field

from softbench.model import Case, Passport, Record, Samples, Status

OVERLAP = 0.05
"""Share of the device clock by which a time of the ranking clock may lie below it; beyond, launches of a replay overlap."""


@dataclass(frozen=True)
class Cell:
    """What one implementation did on one case, with the figures that follow from its samples.

    Times are nanoseconds a launch, bandwidth is decimal GB/s of the operator's ideal bytes, tflop_s decimal TFLOP/s of its
    ideal flops where arithmetic binds it, speedup a factor over the baseline, traffic_factor the bytes that were moved over
    the ideal ones; None where not measured. low_ns to high_ns is the interval of the median; samples are those of the
    ranking clock. rank counts from 1; mark is "=" (tied), "?" (cannot tell) or "" among those who share it.
    """

    record: Record
    samples: tuple[Samples, ...] = ()
    latency_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    bandwidth_gb_s: float | None = None
    tflop_s: float | None = None
    percent_of_roof: float | None = None
    speedup: float | None = None
    call_ns: float | None = None
    device_ns: float | None = None
    traffic_factor: float | None = None
    rank: int | None = None
    mark: str = ""
    is_winner: bool = False
    dagger: bool = False

    @property
    def status(self) -> Status:
        return self.record.status

    @property
    def half_width(self) -> float | None:
        """Of its interval, in per cent of its time: infinite where too few placements say nothing; None without a time."""
        if not self.latency_ns or self.low_ns is None or self.high_ns is None:
            return None
        return 50 * (self.high_ns - self.low_ns) / self.latency_ns

    @property
    def is_warm(self) -> bool:
        """Whether the figures were taken with the data partly in the L2 cache."""
        return any(samples.cache == "warm" for samples in self.samples)

    @property
    def is_unsteady(self) -> bool:
        """Whether the GPU was throttled, or its clocks were down, in a part of the rounds: set aside, or no better to be had."""
        return bool(self.record.clock("unsteady")) or (
            bool(self.samples) and any(state.is_throttled for state in self.record.telemetry)
        )

    @property
    def is_overlapping(self) -> bool:
        """Whether a launch of a replay takes so much less than one by itself that launches must have run into each other."""
        if self.latency_ns is None or self.device_ns is None:
            return False
        return self.latency_ns < (1 - OVERLAP) * self.device_ns


@dataclass(frozen=True)
class CaseBoard:
    """One case: its entrants' cells by implementation, what ran beside them, and the variants that were not chosen."""

    case: Case
    cells: dict[str, Cell]
    roof: Cell | None = None
    references: dict[str, Cell] = field(default_factory=dict)
    others: tuple[Record, ...] = ()

    @property
    def every(self) -> tuple[Cell, ...]:
        """The cells of all that took part: entrants, references, the roof."""
        return (*self.cells.values(), *self.references.values(), *filter(None, [self.roof]))

    @property
    def flops_a_byte(self) -> float:
        """Ideal flops over ideal bytes, for an operator that arithmetic may bind; 0 for others, whose flops do not count."""
        record = next((cell.record for cell in self.cells.values()), None)
        return record.ideal_flops / record.ideal_bytes if record and record.ideal_bytes else 0.0


@dataclass(frozen=True)
class Standing:
    """One implementation of one operator over the whole run.

    score is in % of roof; passed of timed cases carry a time; speedup is the geometric mean over the speedup_cases
    where baseline and implementation both passed; failed_hard holds the ids of the untimed cases that it failed,
    and of the timed ones in which it was right in the check and wrong in a timed call (the dagger).
    """

    operator: str
    implementation: str
    family: str
    rank: int | None
    score: float | None
    passed: int
    timed: int
    speedup: float | None
    speedup_cases: int
    wins: int
    ties: int
    failed_hard: tuple[str, ...] = ()


@dataclass(frozen=True)
class Board:
    """Everything that people are shown about a run."""

    passport: Passport
    baseline: str
    cases: tuple[CaseBoard, ...]
    ranking: tuple[Standing, ...]

    @property
    def missing(self) -> int:
        """How many cases its run was asked for and does not have."""
        return max(0, self.passport.cases - len(self.cases))

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(board.case.operator for board in self.cases))

    @property
    def timed(self) -> tuple[CaseBoard, ...]:
        return tuple(board for board in self.cases if board.case.timed)

    @property
    def has_scores(self) -> bool:
        """Whether anybody passed a timed case; without it there is a correctness table and no ranking."""
        return any(standing.score is not None for standing in self.ranking)

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, case by case: entrants, their variants that were not chosen, references, roof."""
        found: list[Record] = []
        for board in self.cases:
            found += [*(cell.record for cell in board.cells.values()), *board.others]
            found += [cell.record for cell in board.references.values()]
            found += [board.roof.record] if board.roof else []
        return tuple(found)

    def standings(self, operator: str) -> tuple[Standing, ...]:
        return tuple(standing for standing in self.ranking if standing.operator == operator)

    def find(self, case_id: str) -> CaseBoard:
        """The board of one case; KeyError where the run has no such case."""
        for board in self.cases:
            if board.case.id == case_id:
                return board
        raise KeyError(case_id)


def is_declared(record: Record) -> bool:
    """Whether a failure was declared beforehand: shown as xfail, counted as not passed."""
    return bool(record.known_failure) and record.status.is_failure
