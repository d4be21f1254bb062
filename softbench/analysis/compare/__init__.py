"""Two runs, cell by cell: faster, slower, same or cannot tell; changes of status; and what else differs. Pure.

docs/measuring.md, "Two runs", says how: `stats.compare_apart`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from softbench.analysis import leaderboard
from softbench.analysis.compare.surroundings import Change, changes
from softbench.analysis.leaderboard import Board, CaseBoard, Cell, tiers
from softbench.analysis.leaderboard.formatting import status_text
from softbench.model import Case, Passport, Run, Samples, Variant, stats
from softbench.records import comparable
from softbench.records.comparable.sections import one_machine
from softbench.texts import InputError

OTHER_ROOF = 0.0025
"""Allowance for two kernels of one roof: on an H200 they differed by up to 0.22 % between two runs of one source."""
VERDICTS = {"slower": "slower", "faster": "faster", "unknown": "cannot tell", "tied": "same"}
"""The words of `stats` -> the words for two runs, worst first."""
OTHER_KERNEL = "another roof kernel"
"""The note of a cell whose roof was another kernel in each run."""
FELL, ROSE, OTHER, UNSEALED = "fell", "rose", "changed", "no longer sealed"


@dataclass(frozen=True)
class Move:
    """One cell in two runs. change is None if one of them has no time.

    change.ratio is (time over roof) after / before: above 1 is slower. moved is the change of status: "fell", "rose", "changed",
    "no longer sealed", or "" for none.
    """

    case: Case
    implementation: str
    change: stats.Comparison | None
    moved: str

    @property
    def verdict(self) -> str:
        """One of the words of `VERDICTS`, or "" without two times."""
        return VERDICTS[self.change.verdict] if self.change else ""

    @property
    def is_changed(self) -> bool:
        return self.verdict in ("slower", "faster")


@dataclass(frozen=True)
class Pair(Move):
    """The same with both cells. notes say what else differs between the two."""

    before: Cell
    after: Cell
    notes: tuple[str, ...] = ()

    @property
    def is_declared(self) -> bool:
        return leaderboard.is_declared(self.before.record) and leaderboard.is_declared(self.after.record)


@dataclass(frozen=True)
class RunComparison:
    """Run `after` against run `before`; cells in the order of the older run.

    apart are cells of both runs that cannot be compared, with the reason; unsealed are those of them that were sealed and are open
    now; gone and new are ids of cells of one run only.
    roof is the roof's own time, after over before, one factor per case. cases: how many are in both, and in either.
    """

    before: Passport
    after: Passport
    cells: tuple[Pair, ...]
    changes: tuple[Change, ...]
    roof: tuple[float, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unsealed: tuple[Pair, ...] = ()
    cases: tuple[int, int] = (0, 0)

    @property
    def timed(self) -> int:
        return sum(bool(cell.change) for cell in self.cells)

    def of(self, verdict: str) -> list[Pair]:
        """Cells of one verdict, the largest change first."""
        cells = [cell for cell in self.cells if cell.verdict == verdict]
        return sorted(cells, key=lambda cell: cell.change.ratio if cell.change else 1.0, reverse=verdict != "faster")

    def moved(self, how: str) -> list[Pair]:
        return [cell for cell in self.cells if cell.moved == how]

    def failures(self, limit: float) -> list[Pair]:
        """The cells that fail a limit (0.02 is 2 %): docs/commands.md, "Compare"."""
        slower = [cell for cell in self.of("slower") if cell.change and cell.change.ratio >= 1 + limit]
        return [*self.moved(FELL), *self.unsealed, *(cell for cell in slower if cell.moved != FELL)]

    def unclear(self, limit: float) -> int:
        """The number of cells whose intervals allow as much."""
        return sum(cell.verdict == "cannot tell" and cell.change.high >= 1 + limit for cell in self.cells if cell.change)


def compare(before: Run, after: Run) -> RunComparison:
    """Compare two runs of one machine and clock. Drivers, versions and sources may differ; `changes` names them.

    Raises Incomparable for another machine or clock, and InputError if no cell is in both.
    """
    one_machine((before, after))
    boards = leaderboard.build(before), leaderboard.build(after)
    own, theirs = (
        {(case.case.id, name): (case, cell) for case in board.cases for name, cell in case.by_implementation.items()}
        for board in boards
    )
    asked = [{case for case, _ in cells} for cells in (own, theirs)]
    pairs: list[Pair] = []
    apart: list[tuple[str, str]] = []
    unsealed: list[Pair] = []
    for key, (case, cell) in own.items():
        if key not in theirs:
            continue
        there, other = theirs[key]
        why = why_apart(cell, other)
        apart += [("::".join(key), why)] if why else []
        if why == tiers.apart(cell.record, other.record) and tiers.is_lost(cell.record, other.record):
            unsealed.append(Pair(case.case, key[1], None, UNSEALED, cell, other))
        pairs += [] if why else [pair(key[1], case, there)]
    compared, all_roles = {pair.after.record.role for pair in pairs}, {cell.record.role for _, cell in theirs.values()}
    if not compared or "entrant" in all_roles - compared:
        reason = f": {apart[0][1]}" if apart else ", of the same case and implementation"
        raise InputError(f"{before.passport.run_id} and {after.passport.run_id} have no cell to compare{reason}")
    return RunComparison(
        before.passport,
        after.passport,
        tuple(pairs),
        tuple(changes(before, after, common(pairs))),
        tuple(_roofs(*boards)),
        tuple(apart),
        tuple("::".join(key) for key in own if key not in theirs),
        tuple("::".join(key) for key in theirs if key not in own),
        tuple(unsealed),
        (len(asked[0] & asked[1]), len(asked[0] | asked[1])),
    )


def pair(name: str, before: CaseBoard, after: CaseBoard) -> Pair:
    """One implementation in one case of two runs; KeyError if one of them does not have it."""
    a, b = before.by_implementation[name], after.by_implementation[name]
    notes = list(comparable.questions(a.record, b.record).notes)
    change = None
    if a.samples and b.samples:
        other = bool(before.roof and after.roof and roof_kernel(before.roof) != roof_kernel(after.roof))
        notes += [OTHER_KERNEL] if other else []
        notes += ["open, so not ranked"] if b.is_open else []
        ratios = over_roof(before, a), over_roof(after, b)
        change = stats.compare_apart(*ratios, OTHER_ROOF if other else 0.0)
        notes += [] if all(ratios) else ["no roof in the same rounds"]
    how = moved_by(status_text(a.record), standing(a), status_text(b.record), standing(b))
    return Pair(before.case, name, change, how, a, b, tuple(notes))


def moved_by(was: str, stood: int, now: str, stands: int) -> str:
    """The change of a status, by status texts and standings."""
    if was == now:
        return ""
    return OTHER if stood == stands else FELL if stands < stood else ROSE


def standing(cell: Cell) -> int:
    """Timed ranks above passed, passed above right, right above the rest."""
    return bool(cell.samples) + cell.status.is_success + (cell.status.value == "PASSED")


def why_apart(a: Cell, b: Cell) -> str:
    """Why two cells of one name cannot be compared, or ""."""
    answer = comparable.questions(a.record, b.record)
    if answer.terms is comparable.Terms.REFUSED:
        return answer.reason
    if not (a.samples and b.samples):
        return ""
    warm = "taken with a warm L2 cache in one run and with a cold one in the other" if a.is_warm != b.is_warm else ""
    return tiers.apart(a.record, b.record) or warm


def over_roof(case: CaseBoard, cell: Cell) -> list[float]:
    """Logs of time over the roof's, one per placement, of the heat with the most placements."""
    roof: Sequence[Samples] = case.roof.samples if case.roof else ()
    heats = (stats.placement_ratios(a, b) for a in cell.samples for b in roof if a.heat == b.heat)
    return max(heats, key=len, default=[])


def roof_kernel(cell: Cell) -> tuple[str, str]:
    variant = cell.record.variant
    return variant.id, variant.source_hash


def _roofs(before: Board, after: Board) -> Iterator[float]:
    """Time of the roof kernel, after over before, of every case with the same kernel in both."""
    theirs = {case.case.id: case.roof for case in after.timed}
    for case in before.timed:
        own, other = case.roof, theirs.get(case.case.id)
        if own and other and own.latency_ns and other.latency_ns and roof_kernel(own) == roof_kernel(other):
            yield other.latency_ns / own.latency_ns


def common(pairs: Iterable[Pair]) -> dict[str, tuple[Variant, Variant]]:
    """The variants of the cells of both runs, by implementation."""
    return {pair.implementation: (pair.before.record.variant, pair.after.record.variant) for pair in pairs}
