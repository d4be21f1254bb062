"""The parts of a board: frozen data, made by `softbench.analysis.leaderboard.build` and read by all renderers."""

from dataclasses import dataclass, field

from softbench.analysis.leaderboard.estimates import Estimate
from softbench.model import SEALED, Case, Passport, Record, Samples, Status
from softbench.model.stats import Comparison

OVERLAP = 0.05
"""Share by which a time of the ranking clock may be below that of the device clock; beyond it launches of a replay overlap."""


@dataclass(frozen=True)
class Cell:
    """What one implementation did on one case, with the figures that follow from its samples: docs/records.md, "Derived figures".

    Times are nanoseconds per launch; None where not measured. samples are those of the ranking clock. over_roof and over_baseline
    are the times of the roof and of the baseline over its own with their intervals. is_open: its time is not sealed, and another
    one of the case is, so it has no rank.
    """

    record: Record
    samples: tuple[Samples, ...] = ()
    latency_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    bandwidth_gb_s: float | None = None
    tflop_s: float | None = None
    over_roof: Comparison | None = None
    over_baseline: Comparison | None = None
    call_ns: float | None = None
    device_ns: float | None = None
    traffic_factor: float | None = None
    rank: int | None = None
    mark: str = ""
    is_winner: bool = False
    dagger: bool = False
    is_open: bool = False

    @property
    def status(self) -> Status:
        return self.record.status

    @property
    def percent_of_roof(self) -> float | None:
        return None if self.over_roof is None else 100 * self.over_roof.ratio

    @property
    def speedup(self) -> float | None:
        return None if self.over_baseline is None else self.over_baseline.ratio

    @property
    def half_width(self) -> float | None:
        """Half of the interval in per cent of the time: infinite with too few placements; None without a time."""
        if not self.latency_ns or self.low_ns is None or self.high_ns is None:
            return None
        return 50 * (self.high_ns - self.low_ns) / self.latency_ns

    @property
    def placements(self) -> int:
        """How many placements of the ranking clock have a sample, in the heat with the most."""
        return max((sum(map(bool, samples.ns)) for samples in self.samples), default=0)

    @property
    def is_warm(self) -> bool:
        """Whether part of the data was in the L2 cache."""
        return any(samples.cache == "warm" for samples in self.samples)

    @property
    def is_unsteady(self) -> bool:
        """Whether the GPU was throttled or slow in some of the rounds, counted or not."""
        throttled = any(state.is_throttled for state in self.record.telemetry)
        return bool(self.record.clock("unsteady") or (self.samples and throttled))

    @property
    def is_overlapping(self) -> bool:
        """Whether launches of a replay must have overlapped."""
        if self.latency_ns is None or self.device_ns is None:
            return False
        return self.latency_ns < (1 - OVERLAP) * self.device_ns


@dataclass(frozen=True)
class CaseBoard:
    """One case: the entrants' cells and the references' by implementation, the roof, and the variants that were not chosen."""

    case: Case
    cells: dict[str, Cell]
    roof: Cell | None = None
    references: dict[str, Cell] = field(default_factory=dict)
    others: tuple[Record, ...] = ()

    @property
    def by_implementation(self) -> dict[str, Cell]:
        """The cells of references and entrants; the entrant's where both have one name."""
        return {**self.references, **self.cells}

    @property
    def participants(self) -> tuple[Cell, ...]:
        """The cells that took part in the contest: entrants, references, the roof."""
        return (*self.cells.values(), *self.references.values(), *filter(None, [self.roof]))

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        """The cells of all records: entrants, variants that were not chosen, references, the roof."""
        return (*self.cells.values(), *map(Cell, self.others), *self.participants[len(self.cells) :])

    @property
    def is_sealed(self) -> bool:
        """Whether an entrant has a sealed time, so that open ones have no rank."""
        return any(cell.samples and cell.record.tier == SEALED for cell in self.cells.values())

    @property
    def flops_a_byte(self) -> float:
        """Ideal flops over ideal bytes, for an operator that arithmetic may limit; 0 for others."""
        record = next((cell.record for cell in self.cells.values()), None)
        return record.ideal_flops / record.ideal_bytes if record and record.ideal_bytes else 0.0


@dataclass(frozen=True)
class Standing:
    """One implementation of one operator over the whole run.

    score is in % of roof; `passed` of `timed` cases that count were passed; speedup is the geometric mean over the speedup_cases
    where both the baseline and the implementation passed; scored and sped_up are both with their intervals. failed_hard (the
    dagger) holds the ids of the untimed cases that it failed, and of the timed cases in which it was right in the check and wrong
    in a timed call; open_cases those of the timed cases in which its time is open and does not count. weighted_ns is the sum of
    weight x latency, None if a case with a weight was not passed; weighted_speedup is the baseline's over it, with its interval.
    """

    operator: str
    implementation: str
    family: str
    rank: int | None
    scored: Estimate | None
    passed: int
    timed: int
    sped_up: Estimate | None
    speedup_cases: int
    wins: int
    ties: int
    failed_hard: tuple[str, ...] = ()
    open_cases: tuple[str, ...] = ()
    weighted_ns: float | None = None
    weighted_speedup: Estimate | None = None

    @property
    def score(self) -> float | None:
        return self.scored.value if self.scored else None

    @property
    def speedup(self) -> float | None:
        return self.sped_up.value if self.sped_up else None


@dataclass(frozen=True)
class Board:
    """Everything that is shown of a run. cards are sentences on how much its cards differ."""

    passport: Passport
    baseline: str
    cases: tuple[CaseBoard, ...]
    ranking: tuple[Standing, ...]
    cards: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        return max(0, self.passport.cases - len(self.cases))

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(board.case.operator for board in self.cases))

    @property
    def timed(self) -> tuple[CaseBoard, ...]:
        return tuple(board for board in self.cases if board.case.timed)

    @property
    def weighted(self) -> frozenset[str]:
        """The operators with a timed case that has a weight."""
        return frozenset(board.case.operator for board in self.timed if board.case.weight)

    @property
    def has_scores(self) -> bool:
        """Whether a timed case has a pass; if none has, there is a correctness table and no ranking."""
        return any(standing.score is not None for standing in self.ranking)

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, case by case, in the order of `CaseBoard.all_cells`."""
        return tuple(cell.record for case in self.cases for cell in case.all_cells)

    def standings(self, operator: str) -> tuple[Standing, ...]:
        return tuple(standing for standing in self.ranking if standing.operator == operator)

    def find(self, case_id: str) -> CaseBoard:
        """The board of one case; KeyError where the run has no such case."""
        return {board.case.id: board for board in self.cases}[case_id]


def is_declared(record: Record) -> bool:
    """Whether a failure was declared: shown as xfail, counted as not passed."""
    return bool(record.known_failure) and record.status.is_failure
