"""The clock of machines without a GPU: host time of a few calls on CPU tensors, in integer nanoseconds.

Two clocks of the host time every turn, one inside the other, and a turn that they do not agree on is refused. Both are taken
before any implementation is imported, and at each turn it is seen that they are still the functions of Python's own.
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
"""Share by which the two clocks may run at different speeds: the one is slewed by the system, by 0.05 % as a rule."""
APART_NS = 2_000
_MODULE, _BUILTIN = time, type(time.perf_counter_ns)
_CLOCK = getattr(time, "CLOCK_MONOTONIC_RAW", getattr(time, "CLOCK_MONOTONIC", 0))


class WallClock:
    """Makes placements, and finds out about how long a call takes."""

    name = "wall"

    def __init__(self) -> None:
        self.now, self.other = time.perf_counter_ns, time.clock_gettime_ns

    def place(self, operator: Operator, case: Case, launch: Launch, plan: Plan, seed: int, old: Any) -> WallPlacement:
        placement = Placement(operator, case, "cpu", plan, seed)
        del old
        return WallPlacement(placement, launch, plan, self)

    def repeat(self, launch: Launch, buffers: Placement) -> tuple[tuple[torch.Tensor, ...], Any]:
        """As `Placement.repeat`."""
        return buffers.repeat(launch)

    def estimate(self, launch: Launch, inputs: tuple[Any, ...]) -> int:
        """Nanoseconds of the fastest of five calls."""
        return min(self.time(launch, [inputs], 1)[0] for _ in range(5))

    def time(self, launch: Launch, inputs: list[tuple[Any, ...]], calls: int) -> tuple[int, list[Any]]:
        """Nanoseconds of some calls, and what they returned. Raises Wrong where the clocks are not to be believed."""
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
    """Slots, so that nothing of an instance hides what its class does."""

    buffers: Placement
    launch: Launch
    plan: Plan
    clock: WallClock

    def turn(self) -> int:
        """Nanoseconds of `plan.launches` calls, after one that is not timed, and on another input where there is one.

        What some of them wrote is copied before anything else runs. Raises Wrong where the calls left a mode on, or the clocks
        are not to be believed.
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
    """What is wrong with a time that another clock saw to lie between two others, all in ns; "" where nothing is.

    However long the process rests between two readings, the time lies between those of the readings inside and outside of it.
    """
    if least * (1 - APART) - APART_NS <= ns <= most * (1 + APART) + APART_NS:
        return ""
    return f"clock: {ns} ns by one clock of the host, and {least} to {most} ns by another"


def _is_pythons(timer: Any, name: str) -> bool:
    """Whether a timer is Python's own function of this name: neither field of such a function can be set."""
    return type(timer) is _BUILTIN and getattr(timer, "__self__", None) is _MODULE and timer.__name__ == name
