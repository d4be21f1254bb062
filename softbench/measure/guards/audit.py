"""What the parent itself sees of a placement's turns: processor time outside of them, and how long they took.

Only for turns on the CPU. There, processes that burned cores while others were timed once made torch.softmax 30 % faster than
torch.softmax. The parent's time is an upper bound of what a worker reports, and this is a lower one.
"""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence

from softbench.measure.contest.entrant import Entrant
from softbench.measure.plans import Plan
from softbench.model import Status

BUSY = 0.1
"""Cores that a process and its descendants may use while others are timed, on average; honest ones use none. In its own turn it
may use all of them."""
_BUSY_NS = 40_000_000
"""Less is never noticed: the kernel counts processor time in steps of 10 ms."""
_UNSEEN = 3
"""How many times longer than reported the calls may have taken: the untimed first one is often slower than the others."""
_REST_NS = 200_000
_TURNS = 16
"""Fewer turns are not judged. The shortest of them is: on a busy machine most turns wait for a core, in or outside the time."""


class Audit:
    """The audit of one heat: call `begin` at the start of a placement, `add` for each turn, and `judge` at its end."""

    def __init__(self, clock: str, plan: Plan) -> None:
        self._is_on, self._plan = clock == "wall", plan
        self._cores = len(os.sched_getaffinity(0))
        self._outside: defaultdict[Entrant, int] = defaultdict(int)
        self._window: defaultdict[Entrant, int] = defaultdict(int)
        self._began, self._cpu = 0, dict[Entrant, int]()
        self._own: defaultdict[Entrant, int] = defaultdict(int)
        self._turns: defaultdict[Entrant, list[tuple[int, int]]] = defaultdict(list)

    def begin(self, entrants: Sequence[Entrant]) -> None:
        self._own.clear()
        self._began = time.monotonic_ns()
        self._cpu = {e: e.worker.cpu_ns() for e in entrants if e.worker is not None} if self._is_on else {}

    def add(self, entrant: Entrant, elapsed_ns: int, ns: int = 0) -> None:
        """Add a request to the entrant: its time by the parent's clock, and by the worker's if it was a turn."""
        self._own[entrant] += elapsed_ns
        if ns:
            self._turns[entrant].append((elapsed_ns, ns))

    def judge(self, entrants: Sequence[Entrant]) -> None:
        """Close the cells of entrants that worked outside of their turns, or for longer than they report."""
        if not self._is_on:
            return
        wall = time.monotonic_ns() - self._began
        rests = [statistics.median(self._rests(e)) for e in entrants if e.always_in_heats and self._turns[e]]
        for entrant in (e for e in entrants if e.is_open):
            why = self._busy(entrant, wall)
            if rests and not entrant.always_in_heats and len(self._turns[entrant]) >= _TURNS:
                why = why or self._short(entrant, max(rests))
            if why:
                entrant.settle(Status.INCORRECT, why)

    def _busy(self, entrant: Entrant, wall: int) -> str:
        if entrant.worker is None or entrant not in self._cpu:
            return ""
        used = entrant.worker.cpu_ns() - self._cpu[entrant]
        self._outside[entrant] += used - self._cores * self._own[entrant]
        self._window[entrant] += wall - self._own[entrant]
        outside, window = self._outside[entrant], self._window[entrant]
        if outside <= _BUSY_NS + BUSY * window:
            return ""
        return f"worked outside its turns: {outside / window:.1f} cores while others were timed"

    def _short(self, entrant: Entrant, rest: float) -> str:
        own = min(self._rests(entrant))
        reported = statistics.median(ns for _, ns in self._turns[entrant])
        if own <= 2 * rest + _REST_NS + (_UNSEEN - 1) * reported * self._calls(entrant):
            return ""
        elapsed = statistics.median(elapsed for elapsed, _ in self._turns[entrant])
        return f"clock: the worker reads {reported:.0f} ns in a turn of which the parent saw {elapsed:.0f} ns"

    def _rests(self, entrant: Entrant) -> list[float]:
        """What turns took beyond their calls as the worker reports them: the message, another input, copies."""
        return [elapsed - ns * self._calls(entrant) for elapsed, ns in self._turns[entrant]]

    def _calls(self, entrant: Entrant) -> float:
        """All calls of a turn, divided by the timed ones."""
        launches = entrant.plan(self._plan).launches
        return (launches + 1) / launches
