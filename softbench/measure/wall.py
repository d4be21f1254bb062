"""The clock of machines without a GPU: host time of a few calls on CPU tensors, in integer nanoseconds.

Its process imports implementations: `softbench.measure.guards` says how it is watched.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from softbench.cases.operators import Operator
from softbench.measure.clocks import Launch
from softbench.measure.guards import modes, two_clocks
from softbench.measure.guards.calls import KeptCalls
from softbench.measure.incorrect import WrongWhenTimed
from softbench.measure.plans import Plan
from softbench.model import Case


class WallClock:
    def __init__(self) -> None:
        self.now, self.other = time.perf_counter_ns, time.clock_gettime_ns

    def place(self, operator: Operator, case: Case, launch: Launch, plan: Plan, seed: int, old: Any) -> WallPlacement:
        del old
        return WallPlacement(KeptCalls(operator, case, "cpu", plan, seed), launch, plan, self)

    def estimate(self, launch: Launch, inputs: tuple[Any, ...]) -> int:
        """Nanoseconds of the fastest of five calls."""
        return min(self.time(launch, [inputs], 1)[0] for _ in range(5))

    def time(self, launch: Launch, inputs: list[tuple[Any, ...]], calls: int) -> tuple[int, list[Any]]:
        """Nanoseconds of some calls, and what they returned. Raises WrongWhenTimed if the clocks cannot be trusted."""
        now, other, clock = self.now, self.other, two_clocks.OTHER
        if why := two_clocks.replaced(now, other):
            raise WrongWhenTimed(why)
        outputs: list[Any] = []
        before, start, inside = other(clock), now(), other(clock)
        for i in range(calls):
            outputs.append(launch(*inputs[i % len(inputs)]))
        last, stop, after = other(clock), now(), other(clock)
        ns = stop - start
        if why := two_clocks.disagreement(ns, last - inside, after - before):
            raise WrongWhenTimed(why)
        return ns, outputs

    def close(self) -> None:
        return None


@dataclass(slots=True)
class WallPlacement:
    """Has slots, so that no attribute of an instance can hide a method."""

    buffers: KeptCalls
    launch: Launch
    plan: Plan
    clock: WallClock

    def turn(self) -> int:
        """Nanoseconds of `plan.launches` calls, after one that is not timed and has another input if there is one.

        What some of them wrote is copied before anything else runs. Raises WrongWhenTimed if the calls left a mode on, or if
        the clocks cannot be trusted.
        """
        inputs = self.buffers.inputs
        self.buffers.renew()
        self.launch(*inputs[-1])
        ns, self.buffers.outputs = self.clock.time(self.launch, inputs, self.plan.launches)
        if wrong := modes.left_on():
            raise WrongWhenTimed(wrong)
        self.buffers.keep()
        return ns

    def pick(self) -> list[tuple[tuple[Any, ...], Any]]:
        return self.buffers.pick()
