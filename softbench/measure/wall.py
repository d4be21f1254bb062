"""The clock of machines without a GPU: host time of a few calls on CPU tensors, in integer nanoseconds.

Two clocks of the host time every turn, one inside the other, and a turn on which they disagree is refused. Both are taken before
any implementation is imported, and every turn checks that they are still Python's own functions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softbench.measure.check import modes
from softbench.measure.clocks import Launch, Placement, Wrong

if TYPE_CHECKING:
    import torch

    from softbench.cases.operators import Operator
    from softbench.measure.plans import Plan
    from softbench.model import Case

APART = 0.02
"""Share by which the speeds of the two clocks may differ: the system slews one of them, usually by 0.05 %."""
APART_NS = 2_000
_MODULE, _BUILTIN = time, type(time.perf_counter_ns)
_CLOCK = getattr(time, "CLOCK_MONOTONIC_RAW", getattr(time, "CLOCK_MONOTONIC", 0))


class WallClock:
    """Makes placements, and estimates how long a call takes."""

    name = "wall"

    def __init__(self) -> None:
        self.now, self.other = time.perf_counter_ns, time.clock_gettime_ns

    def place(self, operator: Operator, case: Case, launch: Launch, plan: Plan, seed: int, old: Any) -> WallPlacement:
        placement = Placement(operator, case, "cpu", plan, seed)
        del old
        return WallPlacement(placement, launch, plan, self)

    def repeat(self, launch: Launch, buffers: Placement) -> tuple[tuple[torch.Tensor, ...], Any]:
        """See `Placement.repeat`."""
        return buffers.repeat(launch)

    def estimate(self, launch: Launch, inputs: tuple[Any, ...]) -> int:
        """Nanoseconds of the fastest of five calls."""
        return min(self.time(launch, [inputs], 1)[0] for _ in range(5))

    def time(self, launch: Launch, inputs: list[tuple[Any, ...]], calls: int) -> tuple[int, list[Any]]:
        """Nanoseconds of some calls, and what they returned. Raises Wrong if the clocks cannot be trusted."""
        now, other, clock = self.now, self.other, _CLOCK
        for timer, name in ((now, "perf_counter_ns"), (other, "clock_gettime_ns")):
            if not _is_pythons(timer, name):
                raise Wrong("patched: a clock of the harness was replaced")
        outputs: list[Any] = []
        before, start, inside = other(clock), now(), other(clock)
        for i in range(calls):
            outputs.append(launch(*inputs[i % len(inputs)]))
        last, stop, after = other(clock), now(), other(clock)
        ns = stop - start
        if why := disagreement(ns, last - inside, after - before):
            raise Wrong(why)
        return ns, outputs

    def close(self) -> None:
        return None


@dataclass(slots=True)
class WallPlacement:
    """Has slots, so that no attribute of an instance can hide a method."""

    buffers: Placement
    launch: Launch
    plan: Plan
    clock: WallClock

    def turn(self) -> int:
        """Nanoseconds of `plan.launches` calls, after one that is not timed and has another input if there is one.

        What some of them wrote is copied before anything else runs. Raises Wrong if the calls left a mode on, or if the clocks
        cannot be trusted.
        """
        inputs = self.buffers.inputs
        self.buffers.nudge()
        self.launch(*inputs[-1])
        ns, self.buffers.outputs = self.clock.time(self.launch, inputs, self.plan.launches)
        if wrong := modes.left_on():
            raise Wrong(wrong)
        self.buffers.keep()
        return ns


def disagreement(ns: int, least: int, most: int) -> str:
    """What is wrong with a time of which another clock gives the bounds, all in ns; "" if nothing is.

    However long the process pauses between two readings, the time lies between the two times of the other clock.
    """
    if least * (1 - APART) - APART_NS <= ns <= most * (1 + APART) + APART_NS:
        return ""
    return f"clock: {ns} ns by one clock of the host, and {least} to {most} ns by another"


def _is_pythons(timer: Any, name: str) -> bool:
    """Whether a timer is Python's own function of this name; these fields of such a function cannot be set."""
    return type(timer) is _BUILTIN and getattr(timer, "__self__", None) is _MODULE and timer.__name__ == name
