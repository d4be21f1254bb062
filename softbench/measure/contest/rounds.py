"""One heat: placements, shuffled paired rounds in each of them, and the rule that ends it."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from softbench.measure.contest import steady
from softbench.measure.contest.auditing import Audit
from softbench.measure.contest.entrant import Ask, Entrant, Fault, Tell, possible, silent
from softbench.measure.contest.stage_times import StageTimes
from softbench.measure.contest.workers import Answer
from softbench.measure.plans import Plan
from softbench.model import Samples, Status, Telemetry, stats

ROUNDS, CPU_ROUNDS = 4, 8
"""On an H200 eight gave intervals 12 % narrower (90 cells): places differ more than rounds. On a CPU, by `wall`, rounds do."""
FAR_ROUNDS = 3
FAR_FROM_LEADER = 1.25
"""Entrants this far behind after the first placement take only the first rounds of the later ones."""
NEAR_LEADER = 1.03
"""Only entrants this near to the leader are measured until their interval is narrow."""
VERIFIED_SHARE = 0.125
"""Chance that timed calls of a placement are verified. Those of one of the first two always are, and in every placement those of
the leader and the entrants near it."""
_WARM_UP_S = (0.15, 2.0)
_SETTLED = 0.003
_BLOCK = 3


@dataclass
class Heat:
    """What one heat needs and what it collects: ns[entrant][placement][round].

    readings  the telemetry of each placement
    aside     placement (from 0) -> why its rounds do not count; they are in `unsteady`, and empty in `ns`
    racing    the entrants whose rank is open
    """

    entrants: list[Entrant]
    plan: Plan
    clock: str
    number: int
    ask: Ask
    rng: random.Random
    deadline: float
    read_telemetry: Callable[[], Telemetry] = Telemetry
    tell: Tell = silent
    racing: list[Entrant] = field(default_factory=list)
    ns: dict[Entrant, list[list[int]]] = field(default_factory=dict)
    out_of_memory: list[Entrant] = field(default_factory=list)
    times: StageTimes = field(default_factory=StageTimes)
    unsteady: dict[Entrant, list[list[int]]] = field(default_factory=dict)
    readings: list[Telemetry] = field(default_factory=list)
    aside: dict[int, str] = field(default_factory=dict)
    stopped: str = ""
    _whole: int = 0
    _short: set[int] = field(default_factory=set)
    fault: Fault = possible
    audit: Audit = field(init=False)

    def __post_init__(self) -> None:
        self.audit = Audit(self.clock, self.plan)

    def run(self) -> None:
        """Measure until all ranks are decided, and hand the samples to the entrants that are still open."""
        self.ns = {e: [] for e in self.entrants}
        self.unsteady = {e: [] for e in self.entrants}
        active, looks = list(self.entrants), list(stats.LOOKS)
        self._whole, self._short = self._verified()
        looked_at = 0
        for number in itertools.count(1):
            self.tell("rounds", f"placement {number}")  # the first round of a placement is thrown away
            with self.times.stage("placing"):
                active = self.racing = self._place(active)
            if number == 1:
                with self.times.stage("warm-up"):
                    self._warm_up(active)
            with self.times.stage("rounds"):
                active = self._rounds(active, number)
            self._set_aside(active, looked_at)
            counted = number - len(self.aside)
            is_look = counted == looks[0]
            if is_look:
                active, looked_at = self._undecided(active), number
                self.racing = active
                looks.pop(0)
            self.stopped = self._end(active, counted, is_look, is_last=not looks)
            if self.stopped:
                break
        self._hand_over()

    def _end(self, active: list[Entrant], counted: int, is_look: bool, is_last: bool) -> str:
        """Why the heat ends here; "" if it continues."""
        after = f"after {counted} placements"
        if not active:
            return f"{'decided' if is_look else 'no entrant left'} {after}"
        if is_last:
            return f"the last look, {after}"
        return f"out of budget {after}" if counted >= 2 and self._is_over() else ""

    def _is_over(self) -> bool:
        return time.monotonic() > self.deadline

    def samples_of(self, entrant: Entrant) -> Samples:
        return self._samples(entrant, self.clock, self.ns[entrant])

    def _samples(self, entrant: Entrant, clock: str, ns: list[list[int]]) -> Samples:
        plan = entrant.plan(self.plan)
        return Samples(clock, plan.launches, tuple(map(tuple, ns)), plan.cache, self.number)

    def notes(self) -> list[str]:
        """Notes on the heat for the records of all its entrants."""
        placements: dict[str, list[str]] = {}
        for number, reading in enumerate(self.readings):
            if why := steady.fault(reading, self.readings) or self.aside.get(number):
                fate = "does not count" if number in self.aside else "counts all the same"
                placements.setdefault(f"{fate}: {why}", []).append(str(number + 1))
        notes = [f"heat {self.number}, placement {', '.join(numbers)} {text}" for text, numbers in placements.items()]
        return [f"heat {self.number}: {self.stopped}", *notes]

    def _place(self, active: list[Entrant]) -> list[Entrant]:
        seeds = {e: self.rng.getrandbits(40) for e in active}
        requests = {e: e.request("place", plan=asdict(e.plan(self.plan)), seed=seeds[e]) for e in active}
        stay = []
        for entrant, answer in self.ask(requests).items():
            if answer.ok:
                stay.append(entrant)
            elif answer.status is Status.OUT_OF_MEMORY and not answer.fatal:
                self.out_of_memory.append(entrant)
                self.ns[entrant].clear()
            elif "capture raised" in answer.reason and not answer.fatal:
                entrant.is_captured = False
                self.ns[entrant].clear()
                entrant.notes.append(f"not ranked: it cannot be captured in a CUDA graph ({answer.reason})")
            else:
                entrant.take(answer)
        return [e for e in active if e in stay]

    def _warm_up(self, active: list[Entrant]) -> None:
        """Run real load until the medians settle: clocks and power take most of a second after a pause."""
        start = time.monotonic()
        totals: list[float] = []
        while active and time.monotonic() - start < _WARM_UP_S[1]:
            self.tell("warming up")
            total = 0
            for entrant in active:
                answer = self.ask({entrant: entrant.request("turn")})[entrant]
                total += int(answer.data.get("ns", 0)) if answer.ok else 0
                if not answer.ok:
                    entrant.take(answer)
            active = [e for e in active if e.is_open]
            totals.append(total)
            if time.monotonic() - start > _WARM_UP_S[0] and _is_settled(totals):
                return

    def _verified(self) -> tuple[int, set[int]]:
        """The placement in which every entrant's timed calls are compared in full, and those in which they are compared in part.

        Both are drawn in advance, so that no count of calls predicts the next comparison.
        """
        always, most = self.rng.randint(1, 2), stats.LOOKS[-1] + steady.MAX_AGAIN
        return always, {n for n in range(1, most + 1) if n != always and self.rng.random() < VERIFIED_SHARE}

    def _rounds(self, active: list[Entrant], placement: int) -> list[Entrant]:
        """Shuffled rounds; an entrant that fails leaves, and the others are untouched.

        The first round is discarded, and so is the round after a verification: after the pause of a new placement a replay
        reads up to 10 % slow.
        """
        active = [e for e in active if e.is_open]
        for entrant in active:
            self.ns[entrant].append([])
        rounds = CPU_ROUNDS if self.clock == "wall" else ROUNDS
        far, verify_after = self._far(active), self.rng.randrange(rounds)
        self.audit.begin(active)
        self._round(active, counts=False)
        watch = steady.Watch(self.read_telemetry)
        for number in range(rounds):
            takes_part = active if number < FAR_ROUNDS else [e for e in active if e not in far]
            self._round(takes_part, counts=True)
            watch.glance()
            self.tell("rounds", f"placement {placement}, round {number + 1}", amid_rounds=number + 1 < rounds)
            if number == verify_after:
                is_short, ours = placement != self._whole, [e for e in active if e.is_open]
                everybody = not is_short or placement in self._short
                self._verify(ours if everybody else self._leading(ours), is_short=is_short)
                if number + 1 < rounds:
                    self._round(takes_part, counts=False)
        self.audit.judge(active)
        for entrant in active:
            if entrant.is_open and (why := self.fault([self._samples(entrant, self.clock, self.ns[entrant][-1:])])):
                entrant.settle(Status.INCORRECT, why)
        active = [e for e in active if e.is_open]
        self.readings.append(watch.placement())
        for entrant in active:
            entrant.telemetry.append(self.readings[-1])
        return active

    def _round(self, entrants: Sequence[Entrant], *, counts: bool) -> None:
        """A turn of every open entrant, in random order."""
        order = [e for e in entrants if e.is_open]
        self.rng.shuffle(order)
        for entrant in order:
            ns = turn(entrant, self.ask, self.audit.add)
            if entrant.is_open and counts:
                self.ns[entrant][-1].append(ns)

    def _far(self, active: Sequence[Entrant]) -> set[Entrant]:
        """Entrants so much slower than the leader that few rounds will do; none in the first placement."""
        speeds = self.speeds(active)
        leading = min((ns for e, ns in speeds.items() if e.role != "roof"), default=math.inf)
        return {e for e, ns in speeds.items() if ns > FAR_FROM_LEADER * leading}

    def _leading(self, active: Sequence[Entrant]) -> list[Entrant]:
        """The leader and the entrants near it, by their times so far: a mistake of theirs would decide who wins."""
        speeds = {e: ns for e, ns in self.speeds(active).items() if e.role != "roof"}
        return [e for e, ns in speeds.items() if ns <= NEAR_LEADER * min(speeds.values())]

    def speeds(self, entrants: Sequence[Entrant] | None = None) -> dict[Entrant, float]:
        """Nanoseconds per launch so far, of the entrants named (default: all) that have a sample."""
        named = self.entrants if entrants is None else entrants
        return {e: stats.per_launch_ns(self.samples_of(e)) for e in named if any(self.ns.get(e, ()))}

    def _verify(self, entrants: Sequence[Entrant], *, is_short: bool) -> None:
        """Have timed calls of each entrant's last turn compared, and close its cell if they were wrong.

        On a GPU all at the same time, and again alone for want of memory. On a CPU one by one: the audit counts their time.
        """
        requests = {e: e.request("verify", is_short=is_short) for e in entrants}
        answers: dict[Entrant, Answer] = {}
        if self.clock != "wall":
            answers = {e: a for e, a in self.ask(requests).items() if a.status is not Status.OUT_OF_MEMORY or a.fatal}
        for entrant in entrants:
            before = time.perf_counter_ns()
            if entrant not in answers:
                answers |= self.ask({entrant: requests[entrant]})
            entrant.take(answers[entrant])
            self.audit.add(entrant, time.perf_counter_ns() - before)

    def _set_aside(self, active: Sequence[Entrant], looked_at: int) -> None:
        """Take the rounds of an unsteady GPU out of the statistics; the heat continues until others replace them.

        Rounds that a look has used stay. So do those that cannot be replaced: two placements must count after the deadline.
        """
        for number in range(looked_at, len(self.readings)):
            counted = len(self.readings) - len(self.aside)
            if len(self.aside) == steady.MAX_AGAIN or (counted <= 2 and self._is_over()):
                return
            why = "" if number in self.aside else steady.fault(self.readings[number], self.readings)
            if why:
                self.aside[number] = why
                for entrant in active:
                    self.unsteady[entrant] += [[] for _ in range(len(self.unsteady[entrant]), number + 1)]
                    self.unsteady[entrant][number] = self.ns[entrant][number]
                    self.ns[entrant][number] = []

    def _undecided(self, active: list[Entrant]) -> list[Entrant]:
        """The leader and the entrants near it whose verdict is open; empty when all are decided."""
        speeds = self.speeds(self._leading(active))
        if not speeds:
            return []
        leader = min(speeds, key=lambda e: speeds[e])
        open_ones = [
            e
            for e in speeds
            if e is not leader and stats.compare(self.samples_of(e), self.samples_of(leader)).verdict == "unknown"
        ]
        return [leader, *open_ones] if open_ones else []

    def _hand_over(self) -> None:
        for entrant in self.entrants:
            if entrant.is_open and any(self.ns[entrant]):
                entrant.samples.append(self.samples_of(entrant))
                if any(self.unsteady[entrant]):
                    entrant.samples.append(self._samples(entrant, "unsteady", self.unsteady[entrant]))


def turn(entrant: Entrant, ask: Ask, seen: Callable[[Entrant, int, int], None] = lambda *_: None) -> int:
    """Nanoseconds of a turn, which the parent times as well; if they are impossible or missing, the cell is closed."""
    before = time.perf_counter_ns()
    answer = ask({entrant: entrant.request("turn")})[entrant]
    elapsed = time.perf_counter_ns() - before
    ns = int(answer.data["ns"]) if entrant.take(answer) else 0
    seen(entrant, elapsed, ns)
    if entrant.is_open and not 0 < ns <= elapsed:
        entrant.settle(Status.INCORRECT, f"clock: the worker reads {ns} ns, the parent saw {elapsed} ns")
    return ns


def _is_settled(totals: list[float]) -> bool:
    if len(totals) < 2 * _BLOCK:
        return False
    last, before = statistics.median(totals[-_BLOCK:]), statistics.median(totals[-2 * _BLOCK : -_BLOCK])
    return abs(last - before) <= _SETTLED * before
