"""A case from start to end: prepare and check every entrant, choose among variants, run the heats, time the calls.

Read this file to know what happens to a kernel.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from softbench import texts
from softbench.cases import operators
from softbench.measure import device
from softbench.measure.contest import admission, apart, calibrating, compiled, profiled, traffic
from softbench.measure.contest.asker import Asker
from softbench.measure.contest.entrant import Entrant, mode_of
from softbench.measure.contest.preparing import Preparation
from softbench.measure.contest.progress import CaseView, Progress
from softbench.measure.contest.rounds import Heat
from softbench.measure.contest.stage_times import StageTimes
from softbench.measure.contest.trials import Trials
from softbench.measure.contest.worker_pool import DeviceLost, WorkerPool
from softbench.measure.plans import REPLAY_NS, Plan, plan_graph, plan_wall
from softbench.model import BALANCE, Calibration, Case, Record, Samples, Status, Telemetry, Variant, calibration
from softbench.model.limits import Limits

CALL_TIMEOUT_S = 60.0
CALL_CALIBRATIONS = 5


@dataclass(frozen=True)
class Rules:
    """What a run fixes for all its cases. Times in seconds; the budget is the measuring time of one case."""

    budget_s: float = 10.0
    timeout_s: float = 120.0
    seed: int = 0
    selection: str = ""
    traffic: bool = False
    device_clock: bool = False
    registers: bool = False


@dataclass
class Contest:
    """Runs cases one after the other with the same workers.

    roofs         the roof's variants by operator
    baselines     the eager implementation by operator
    progress      hears what is going on, never while a turn is timed
    limits        what this machine can do: a time beyond it is INCORRECT
    calibrations  those of the clocks; None: the first case that is timed on a GPU starts with them
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
    _view: CaseView = field(default_factory=CaseView, init=False)
    _calibrated: int = field(default=0, init=False)

    def run(self, case: Case, variants: Sequence[Variant]) -> list[Record]:
        """All records of one case: the selected variants', the roof's, and the baseline's if it was not selected.

        Raises DeviceLost if the GPU is gone: that is no kernel's failure.
        """
        records = apart.measured(variants, lambda chosen, roofs: self._once(case, chosen, roofs))
        if case.timed and records and self.calibrations:
            records[0] = replace(records[0], calibrations=self.calibrations)
        return records

    def _once(self, case: Case, variants: Sequence[Variant], roofs: Sequence[Variant] | None) -> apart.Outcome:
        rng = random.Random(f"{self.rules.seed}/{case.id}")
        entrants = self._entrants(case, variants, self.roofs.get(case.operator, ()) if roofs is None else roofs)
        self._view = CaseView(case, entrants, self.progress)
        preparation = Preparation(case, self.pool, self.rules.timeout_s, rng.getrandbits(40), self._view.tell)
        times = StageTimes()
        try:
            self._calibrate(case)
            with times.stage("prepare"):
                preparation.run(entrants)
            self._measure(case, entrants, preparation, rng, times)
            for entrant in entrants:  # also variants that were not chosen
                if why := self._fault(case, entrant.samples):
                    entrant.settle(Status.INCORRECT, why)
        except BaseException:
            self.pool.close()  # answers are under way that will not be read; asking a hung worker would take a minute
            raise
        self.pool.everyone("hello", CALL_TIMEOUT_S)  # before anything is settled: this exposes a forged answer
        for entrant in entrants:
            if entrant.is_ready:
                entrant.settle(Status.PASSED, "")
            elif entrant.is_open:
                entrant.settle(Status.CRASHED, "its process ended between two requests")
            if entrant.role == "roof":
                entrant.notes.append(str(times))
        self.pool.everyone("drop", CALL_TIMEOUT_S)
        self._require_device(entrants)
        ideal = _ideal(case)
        ended = apart.ended(entrants)
        if ended:
            self.pool.close()
        selection = self.rules.selection
        records = [
            e.record(case, *ideal, texts.repeat_command(selection, case.id, e.variant.implementation))
            for e in _recorded(entrants)
        ]
        return apart.Outcome(records, ended)

    def _fault(self, case: Case, samples: Sequence[Samples]) -> str:
        """Why samples of this case are impossible, or ""."""
        return self.limits.fault(case.dtype, *_ideal(case), samples)

    def _calibrate(self, case: Case) -> None:
        """Calibrate once, and again before each case while a clock is off: what disturbed it may have gone.

        If only the call clock is off, which ranks nothing, stop after `CALL_CALIBRATIONS` times.
        """
        off = [clock for clock in ("graph", "call") if calibration.refusal(self.calibrations or (), clock)]
        has_given_up = off == ["call"] and self._calibrated >= CALL_CALIBRATIONS
        is_due = self.calibrations is None or (off and not has_given_up)
        if self.card is not None and case.timed and is_due:
            self._view.tell("checking the clocks")
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
        baseline = self.baselines.get(case.operator)
        if baseline is not None:
            mine = next((e for e in entrants if e.variant.id == baseline.id), None)
            if mine is None and case.timed:
                mine = Entrant(baseline, "reference")
                entrants.append(mine)
            if mine is not None:
                mine.is_baseline = True
        if case.timed:
            entrants += [Entrant(v, "roof") for v in roofs]
        for slot, entrant in enumerate(entrants):
            entrant.slot = slot
            entrant.mode, why = mode_of(entrant.variant, self.card)
            if why:
                entrant.settle(Status.UNAVAILABLE, why)
        return entrants

    def _measure(
        self, case: Case, entrants: Sequence[Entrant], preparation: Preparation, rng: random.Random, times: StageTimes
    ) -> None:
        players = [e for e in entrants if e.is_open and e.mode == "measure"]
        if not case.timed or not players:
            return
        asker = Asker(self.pool, min(self.rules.timeout_s, max(30.0, self.rules.timeout_s / 4)))
        plan = self._plan(case, players, asker)
        finalists = players
        if self._may_use("graph", players):
            with times.stage("choose"):
                self.pool.everyone("release", CALL_TIMEOUT_S)  # what the checks left in the workers' caches
                fault = partial(self._fault, case)
                finalists = Trials(plan, asker, rng, preparation.run, self._view.tell, fault).choose(players)
            with times.stage("heats"):
                self._heats(case, finalists, plan, asker, rng, times)
        if self.card is not None:
            with times.stage("calls"):
                self._calls(finalists, plan, asker, rng)
        if self.card is not None and self.rules.device_clock and self._may_use("device", finalists):
            with times.stage("profiled"):
                self._spans(case, finalists, plan, self.card, rng)
        if self.rules.registers:
            with times.stage("registers"):
                self._view.tell("registers")
                compiled.read(
                    case, [e for e in finalists if e.is_open], self.pool, Asker(self.pool, self.rules.timeout_s)
                )
        if self.card is not None and self.rules.traffic:
            with times.stage("traffic"):
                self._traffic(case, finalists, plan, self.card, rng)

    def _may_use(self, clock: str, entrants: Sequence[Entrant]) -> bool:
        """Whether a clock passed its calibration; if not, each entrant gets a note that says why it has no samples.

        `cold` reads events, as `graph` does.
        """
        why = calibration.refusal(self.calibrations or (), "graph" if clock == "cold" else clock)
        for entrant in entrants if why and clock != "cold" else ():
            entrant.notes.append(f"no {clock} clock: {why}")
        return not why

    def _spans(self, case: Case, players: Sequence[Entrant], plan: Plan, card: device.Gpu, rng: random.Random) -> None:
        self._view.tell("the device clock")
        asker = Asker(self.pool, self.rules.timeout_s)
        ready = [e for e in players if e.is_ready]
        profiled.measure(case, ready, plan, card.l2_bytes, self.pool, asker, rng)

    def _plan(self, case: Case, players: Sequence[Entrant], asker: Asker) -> Plan:
        if self.card is not None:
            arithmetic_ns = operators.counted_flops(case) / (BALANCE * self.card.peak_gb_s)
            return plan_graph(*operators.moved_bytes(case), self.card.l2_bytes, self.card.peak_gb_s, arithmetic_ns)
        for entrant in players:
            answer = asker({entrant: entrant.request("estimate", seed=1)})[entrant]
            if entrant.take(answer):
                entrant.own_plan = plan_wall(float(answer.data["ns"]))
        return plan_wall(REPLAY_NS)

    def _heats(
        self, case: Case, players: list[Entrant], plan: Plan, asker: Asker, rng: random.Random, times: StageTimes
    ) -> None:
        """Heats that fit the memory, and the ones that `admission.once_more` adds."""
        always = [e for e in players if e.always_in_heats]
        others = [e for e in players if not e.always_in_heats]
        each = 2 * plan.bytes_held(*operators.moved_bytes(case))
        self.pool.everyone("release", CALL_TIMEOUT_S)  # what is in the workers' caches counts as taken
        free = self.pool.free_bytes(players)
        groups = [] if free is None else admission.heats(always, others, each, free)
        clock = "graph" if self.card is not None else "wall"
        number = 0
        while groups:
            group = [e for e in groups.pop(0) if e.is_ready]
            deadline = time.monotonic() + self.rules.budget_s
            heat = self._view.heat = Heat(
                group, plan, clock, number, asker, rng, deadline, self.read_telemetry, self._view.tell, times=times,
                fault=partial(self._fault, case),
            )  # fmt: skip
            heat.run()
            self._view.heat = None
            number += 1
            self.pool.everyone("release", CALL_TIMEOUT_S)
            for entrant in group:
                entrant.notes += heat.notes()
            groups += admission.once_more(heat, always, plan, asker, rng)

    def _calls(self, players: Sequence[Entrant], plan: Plan, asker: Asker, rng: random.Random) -> None:
        """Host time of a call, one entrant at a time, and cold single launches if the graph is warm."""
        clocks = [clock for clock in ("call", "cold") if self._may_use(clock, players)]
        for entrant in players:
            if not entrant.is_ready:
                continue
            self._view.tell("host time of a call", entrant.variant.id)
            flush = self.card.l2_bytes if plan.cache == "warm" and self.card is not None else 0
            request = entrant.request("call", seed=rng.getrandbits(40), cold_l2_bytes=flush)
            answer = asker({entrant: request})[entrant]
            if entrant.take(answer):
                for clock in clocks:
                    if clock in answer.data and (flush or clock != "cold"):
                        entrant.samples.append(Samples(clock, 1, answer.data[clock], "cold" if clock == "cold" else ""))

    def _traffic(
        self, case: Case, players: Sequence[Entrant], plan: Plan, card: device.Gpu, rng: random.Random
    ) -> None:
        calls = traffic.calls_for(sum(operators.moved_bytes(case)), card.l2_bytes)
        for entrant in (e for e in players if e.is_ready):
            self._view.tell("memory traffic", entrant.variant.id)
            try:
                entrant.traffic = traffic.measure(
                    case, entrant, plan, calls, seed=rng.getrandbits(40), timeout_s=self.rules.timeout_s
                )
            except traffic.TrafficError as error:
                entrant.notes.append(f"traffic: {error}")


def _recorded(entrants: Sequence[Entrant]) -> list[Entrant]:
    """The entrants that get a record: all but the roof's kernels that were not chosen; if none was, the first says why."""
    roofs = [e for e in entrants if e.role == "roof"]
    shown = [e for e in roofs if e.is_best] or roofs[:1]
    return [e for e in entrants if e.role != "roof" or e in shown]


def _ideal(case: Case) -> tuple[int, int]:
    """Ideal bytes and, where arithmetic binds the operator, flops."""
    return operators.get(case.operator).ideal_bytes(case), operators.counted_flops(case)
