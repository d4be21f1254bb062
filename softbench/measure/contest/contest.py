"""A case from start to end, and again where its ranks are open; `measuring.py` says what happens to a kernel in between."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from softbench import texts
from softbench.cases import operators
from softbench.measure import device
from softbench.measure.contest import apart, calibrating
from softbench.measure.contest.entrant import Entrant, mode_of
from softbench.measure.contest.measuring import Measuring, Rules
from softbench.measure.contest.progress import CaseView, Progress
from softbench.measure.contest.worker_pool import DeviceLost, WorkerPool
from softbench.model import Calibration, Case, Record, Status, Telemetry, Variant, calibration, stats
from softbench.model.limits import Limits

CALL_CALIBRATIONS = 5


@dataclass
class Contest:
    """Runs cases one after the other with the same workers.

    roofs         the roof's variants by operator
    baselines     the eager implementation by operator
    progress      hears what is going on, never while a turn is timed
    limits        what this machine can do: a time beyond it is INCORRECT
    calibrations  those of the clocks; None: the first case that is timed on a GPU starts with them
    open          the cases that `refine` can look at again
    """

    rules: Rules
    pool: WorkerPool
    card: device.Gpu | None
    roofs: dict[str, tuple[Variant, ...]] = field(default_factory=dict)
    baselines: dict[str, Variant] = field(default_factory=dict)
    read_telemetry: Callable[[], Telemetry] = Telemetry
    progress: Callable[[Progress], None] = lambda progress: None
    limits: Limits = field(default_factory=Limits)
    calibrations: tuple[Calibration, ...] | None = ()
    open: dict[Case, Measuring] = field(default_factory=dict, init=False)
    _calibrated: int = field(default=0, init=False)

    def run(
        self, case: Case, variants: Sequence[Variant], *, most_looks: int = len(stats.LOOKS), most_s: float = math.inf
    ) -> list[Record]:
        """All records of one case: the selected variants', the roof's, and the baseline's if it was not selected.

        A heat ends after `most_looks` looks or `most_s` seconds at the latest. If ranks are open then, and the case's budget is
        not used up, the case is in `open`.
        Raises DeviceLost if the GPU is gone: that is no kernel's failure.
        """
        outcomes = []

        def once(chosen: Sequence[Variant], roofs: Sequence[Variant] | None) -> apart.Outcome:
            outcomes.append(self._once(case, chosen, roofs, most_looks, most_s))
            return outcomes[-1]

        records = apart.measured(variants, once)
        if len(outcomes) > 1:
            self.open.pop(case, None)
        return self._with_calibrations(records)

    def refine(self, case: Case, most_s: float = math.inf) -> list[Record]:
        """All records of a case in `open` after one more look at the entrants whose ranks are open there.

        Empty if a process was ended from outside: what the case had stands.
        """
        left = self.open.pop(case)
        with self._closing_if_it_fails():
            left.look_again(most_s)
        outcome = self._conclude(case, left.entrants)
        if outcome.ended:
            return []
        if left.unfinished:
            self.open[case] = left
        return self._with_calibrations(outcome.records)

    def _with_calibrations(self, records: list[Record]) -> list[Record]:
        if records and records[0].case.timed and self.calibrations:
            records[0] = replace(records[0], calibrations=self.calibrations)
        return records

    def _once(
        self, case: Case, variants: Sequence[Variant], roofs: Sequence[Variant] | None, most_looks: int, most_s: float
    ) -> apart.Outcome:
        entrants = self._entrants(case, variants, self.roofs.get(case.operator, ()) if roofs is None else roofs)
        view = CaseView(case, entrants, self.progress)
        with self._closing_if_it_fails():
            self._calibrate(case, view)
            measuring = Measuring(
                case, entrants, self.rules, self.pool, self.card, view,
                self.read_telemetry, partial(self.limits.fault, case.dtype, *_ideal(case)), self.calibrations or (),
            )  # fmt: skip
            measuring.run(most_looks, most_s)
        for roof in (e for e in entrants if e.role == "roof"):
            roof.notes.append(str(measuring.times))
        outcome = self._conclude(case, entrants)
        if measuring.unfinished and not outcome.ended:
            self.open[case] = measuring
        return outcome

    @contextmanager
    def _closing_if_it_fails(self) -> Iterator[None]:
        """Answers are under way then that will not be read; asking a hung worker would take a minute."""
        try:
            yield
        except BaseException:
            self.pool.close()
            raise

    def _conclude(self, case: Case, entrants: Sequence[Entrant]) -> apart.Outcome:
        self.pool.everyone("hello")  # before anything is settled: this exposes a forged answer
        for entrant in entrants:
            if entrant.is_ready:
                entrant.settle(Status.PASSED, "")
            elif entrant.is_open:
                entrant.settle(Status.CRASHED, "its process ended between two requests")
        self.pool.everyone("drop")
        self._require_device(entrants)
        ideal = _ideal(case)
        if ended := apart.ended(entrants):
            self.pool.close()
        selection = self.rules.selection
        records = [
            e.record(case, *ideal, texts.repeat_command(selection, case.id, e.variant.implementation)) for e in _recorded(entrants)
        ]
        return apart.Outcome(records, ended)

    def _calibrate(self, case: Case, view: CaseView) -> None:
        """Check the clocks if that is due: docs/measuring.md, "Kernels of known duration"."""
        off = [clock for clock in ("graph", "call") if calibration.refusal(self.calibrations or (), clock)]
        has_given_up = off == ["call"] and self._calibrated >= CALL_CALIBRATIONS
        is_due = self.calibrations is None or (off and not has_given_up)
        if self.card is not None and case.timed and is_due:
            view.tell("checking the clocks")
            self._calibrated += 1
            self.calibrations = calibrating.calibrate(self.pool, self.card.l2_bytes, device=self.rules.device_clock)

    def _require_device(self, entrants: Sequence[Entrant]) -> None:
        """If an entrant failed and no worker survived, check whether the GPU is gone: a worker that lives has just used it."""
        failed = [e for e in entrants if e.status is not None and e.status.is_failure]
        if self.card is None or self.pool.living or not failed:
            return
        if why := self.pool.refused():
            what = f"{self.card.name} ({self.card.id}) cannot be used any more: {why}"
            raise DeviceLost(f"{what}; finished cases are kept, and --softbench-resume continues once it can")

    def _entrants(self, case: Case, variants: Sequence[Variant], roofs: Sequence[Variant]) -> list[Entrant]:
        entrants = [Entrant(v, "entrant") for v in variants if v.operator == case.operator]
        if (baseline := self.baselines.get(case.operator)) is not None:
            if case.timed and baseline.id not in [e.variant.id for e in entrants]:
                entrants.append(Entrant(baseline, "reference"))
            for entrant in entrants:
                entrant.is_baseline = entrant.variant.id == baseline.id
        if case.timed:
            entrants += [Entrant(v, "roof") for v in roofs]
        for slot, entrant in enumerate(entrants):
            entrant.slot = slot
            entrant.mode, why = mode_of(entrant.variant, self.card)
            if why:
                entrant.settle(Status.UNAVAILABLE, why)
        return entrants


def _recorded(entrants: Sequence[Entrant]) -> list[Entrant]:
    """The entrants that get a record: all but the roof's kernels that were not chosen; if none was, the first says why."""
    roofs = [e for e in entrants if e.role == "roof"]
    shown = [e for e in roofs if e.is_best] or roofs[:1]
    return [e for e in entrants if e.role != "roof" or e in shown]


def _ideal(case: Case) -> tuple[int, int]:
    """Ideal bytes and, where arithmetic binds the operator, flops."""
    return operators.get(case.operator).ideal_bytes(case), operators.counted_flops(case)
