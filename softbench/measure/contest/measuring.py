"""One case while it is measured: prepared and checked entrants, the choice among variants, the heats, the other clocks.

Read this file to know what happens to a kernel.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from softbench.cases import operators
from softbench.measure import device
from softbench.measure.contest import admission, compiled, profiled, traffic
from softbench.measure.contest.asker import Asker
from softbench.measure.contest.entrant import Entrant, Fault, contenders
from softbench.measure.contest.preparing import Preparation
from softbench.measure.contest.progress import CaseView
from softbench.measure.contest.rounds import LEAD_IN_S_PER_GB, Heat
from softbench.measure.contest.stage_times import StageTimes
from softbench.measure.contest.trials import Trials
from softbench.measure.contest.worker_pool import WorkerPool, authors_stopped
from softbench.measure.plans import Plan, plan_graph, plan_wall
from softbench.model import BALANCE, SEALED, Calibration, Case, Samples, Status, Telemetry, calibration


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
class Measuring:
    """fault says why samples of this case are impossible; calibrations are those of the clocks."""

    case: Case
    entrants: Sequence[Entrant]
    rules: Rules
    pool: WorkerPool
    card: device.Gpu | None
    view: CaseView = field(default_factory=CaseView)
    read_telemetry: Callable[[], Telemetry] = Telemetry
    fault: Fault = lambda samples: ""
    calibrations: tuple[Calibration, ...] = ()
    times: StageTimes = field(default_factory=StageTimes)
    heats: list[Heat] = field(default_factory=list)

    def __post_init__(self) -> None:
        rules = self.rules
        self.rng = random.Random(f"{rules.seed}/{self.case.id}")
        seed = self.rng.getrandbits(40)
        memory = 0 if self.card is None else self.card.memory_bytes
        self._preparation = Preparation(self.case, self.pool, rules.timeout_s, seed, self.view.tell, self._graph_plan, memory)
        self._ask = Asker(self.pool, min(rules.timeout_s, max(30.0, rules.timeout_s / 4)))
        self._ask_patiently = Asker(self.pool, rules.timeout_s)

    def run(self, most_looks: int, most_s: float = math.inf) -> None:
        """All stages; the arguments are those of `Contest.run`."""
        with self.times.stage("prepare"):
            self._preparation.run(self.entrants)
        players = [e for e in self.entrants if e.is_open and e.mode == "measure"]
        if self.case.timed and players:
            self._measure(players, most_looks, most_s)
        self._refuse_impossible()

    @property
    def unfinished(self) -> list[Heat]:
        """The heats with open ranks, and time left for them."""
        return [heat for heat in self.heats if heat.is_unfinished and heat.spent_s < self.rules.budget_s]

    @property
    def gap(self) -> float:
        """How near a leader and its nearest rival are, where their ranks are open: the log of the ratio of their times."""
        speeds = [sorted(contenders(heat.speeds(heat.racing)).values()) for heat in self.unfinished]
        return min((math.log(first[1] / first[0]) for first in speeds if len(first) > 1), default=math.inf)

    def look_again(self, most_s: float) -> None:
        """Look once more at the entrants whose ranks are open. Their kernels are built again, and not checked again."""
        for heat in self.unfinished:
            for entrant in heat.racing:
                entrant.reopen()
            self._preparation.again(heat.racing)
            self._run(heat, 1, most_s)
        self._refuse_impossible()

    def _measure(self, players: list[Entrant], most_looks: int, most_s: float) -> None:
        plan = self._plan(players)
        finalists = players
        if self._may_use("graph", players):
            with self.times.stage("choose"):
                self.pool.everyone("release")  # what the checks left in the workers' caches
                trials = Trials(plan, self._ask, self.rng, self._preparation.run, self.view.tell, self.fault)
                finalists = trials.choose(players)
            with self.times.stage("heats"):
                self._run_heats(finalists, plan, most_looks, most_s)
        if self.card is not None:
            with self.times.stage("calls"):
                self._calls(finalists, plan, self.card)
        if self.card is not None and self.rules.device_clock and self._may_use("device", finalists):
            with self.times.stage("profiled"):
                self._spans(finalists, plan, self.card)
        if self.rules.registers:
            with self.times.stage("registers"):
                self.view.tell("registers")
                compiled.read(self.case, [e for e in finalists if e.is_open], self.pool, self._ask_patiently)
        if self.card is not None and self.rules.traffic:
            with self.times.stage("traffic"):
                self._traffic(finalists, plan, self.card)

    def _refuse_impossible(self) -> None:
        for entrant in self.entrants:  # also variants that were not chosen
            if why := self.fault(entrant.samples):
                entrant.settle(Status.INCORRECT, why)

    def _may_use(self, clock: str, entrants: Sequence[Entrant]) -> bool:
        """Whether a clock passed its calibration; if not, each entrant gets a note that says why it has no samples.

        `cold` reads events, as `graph` does.
        """
        why = calibration.refusal(self.calibrations, "graph" if clock == "cold" else clock)
        for entrant in entrants if why and clock != "cold" else ():
            entrant.notes.append(f"no {clock} clock: {why}")
        return not why

    def _plan(self, players: Sequence[Entrant]) -> Plan:
        if plan := self._graph_plan():
            return plan
        for entrant in players:
            answer = entrant.answer(self._ask, "estimate", seed=1)
            if entrant.take(answer):
                entrant.own_plan = plan_wall(float(answer.data["ns"]), operators.over_bytes(self.case))
        return plan_wall(math.inf)

    def _graph_plan(self) -> Plan | None:
        """How samples of a timed case are taken on a GPU; None where there is none."""
        if self.card is None or not self.case.timed:
            return None
        arithmetic_ns = operators.counted_flops(self.case) / (BALANCE * self.card.peak_gb_s)
        moved, over = operators.moved_bytes(self.case), operators.over_bytes(self.case)
        return plan_graph(*moved, self.card.l2_bytes, self.card.peak_gb_s, arithmetic_ns, over)

    def _run_heats(self, players: list[Entrant], plan: Plan, most_looks: int, most_s: float) -> None:
        always = [e for e in players if e.always_in_heats]
        others = [e for e in players if not e.always_in_heats]
        held = plan.bytes_held(*operators.moved_bytes(self.case), operators.over_bytes(self.case))
        self.pool.everyone("release")  # what is in the workers' caches counts as taken
        free = self.pool.free_bytes(players)
        room = admission.room(held, free or 0)
        groups = [] if free is None else admission.heats(always, others, room)
        clock = "graph" if self.card is not None else "wall"
        while groups:
            group = [e for e in groups.pop(0) if e.is_ready]
            heat = Heat(
                group, plan, clock, len(self.heats), self._ask, self.rng, read_telemetry=self.read_telemetry,
                tell=self.view.tell, lead_in_s=LEAD_IN_S_PER_GB * held / 1e9, times=self.times, fault=self.fault,
                at_once=max(1, room - len(group)),
            )  # fmt: skip
            self.heats.append(heat)
            self._run(heat, most_looks, most_s)
            groups += admission.once_more(heat, always, plan, self._ask, self.rng)

    def _run(self, heat: Heat, most_looks: int, most_s: float) -> None:
        """Run a heat for the rest of the case's budget, but at most `most_s` seconds; then free the GPU."""
        before = heat.notes() if heat.readings else []
        heat.deadline = time.monotonic() + min(most_s, self.rules.budget_s - heat.spent_s)
        self.view.heat = heat
        with authors_stopped(heat.entrants):
            heat.run(most_looks)
        self.view.heat = None
        self.pool.everyone("release")
        for entrant in heat.entrants:
            entrant.notes = [note for note in entrant.notes if note not in before] + heat.notes()

    def _calls(self, players: Sequence[Entrant], plan: Plan, card: device.Gpu) -> None:
        """Host time of a call, one entrant at a time, and cold single launches if the graph is warm."""
        clocks = [clock for clock in ("call", "cold") if self._may_use(clock, players)]
        for entrant in players:
            if not entrant.is_ready:
                continue
            self.view.tell("host time of a call", entrant.variant.id)
            found = self._call(entrant, card.l2_bytes if plan.cache == "warm" else 0)
            for clock in clocks:
                if found.get(clock):
                    entrant.samples.append(Samples(clock, 1, found[clock], "cold" if clock == "cold" else ""))

    def _call(self, entrant: Entrant, flush: int) -> dict[str, Any]:
        """Host times of calls from the author's process; if flush is not 0, cold launches from where the graph is timed."""
        seed = self.rng.getrandbits(40)
        answer = entrant.at_author().answer(self._ask, "call", seed=seed)
        if entrant.tier != SEALED and not entrant.take(answer):
            return {}
        if not answer.ok:
            entrant.notes.append(f"no call clock: {answer.reason}")
        found = dict(answer.data)
        if flush:
            cold = entrant.answer(self._ask, "cold", seed=seed, l2_bytes=flush)
            found |= cold.data if entrant.take(cold) else {}
        return found

    def _spans(self, players: Sequence[Entrant], plan: Plan, card: device.Gpu) -> None:
        self.view.tell("the device clock")
        ready = [e for e in players if e.is_ready]
        with authors_stopped(ready):
            profiled.measure(self.case, ready, plan, card.l2_bytes, self.pool, self._ask_patiently, self.rng)

    def _traffic(self, players: Sequence[Entrant], plan: Plan, card: device.Gpu) -> None:
        calls = traffic.calls_for(operators.moved_bytes(self.case)[1], card.l2_bytes)
        self.view.tell("memory traffic")
        ready = [e for e in players if e.is_ready]
        seed, timeout_s = self.rng.getrandbits(40), self.rules.timeout_s
        with authors_stopped(ready):
            traffic.measure(self.case, ready, plan, calls, seed=seed, timeout_s=timeout_s)
