"""Reads kernels of known duration by each clock, exactly as implementations are read."""

import random
import statistics
from collections.abc import Callable, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import Any

from softbench.measure import spin_kernels
from softbench.measure.clocks import CALLS, WARM_CALLS, Launch
from softbench.measure.cupti_clock import Unseen
from softbench.measure.plans import Plan
from softbench.model import Calibration, Case, calibration

DURATIONS_NS = (20_000, 100_000, 500_000)
"""Three, so that a clock's rate can be told from a constant per kernel; about as long as what is measured."""
ATTEMPTS = 3
"""A clock that misreads is tried again: another process may have used the GPU at that moment."""
_PLAN = Plan(10, 1, "")
_TURNS = 9
_CALL_READINGS = 10
"""Readings of the call clock, each of eight groups of 12 calls: about 300 calls of each duration."""
_CASE = Case("spin", (16,), "float32", "float32")

Reader = Callable[[Sequence[Launch]], list[float]]
"""What a clock reads for each of some launches, in ns."""


def polled() -> None:
    """Wait for the current stream by polling.

    On virtual machines torch.cuda.synchronize returned late, by 1 to 3 % of the time that it had waited.
    """
    import torch

    event = torch.cuda.Event()
    event.record()
    while not event.query():
        pass


def calibrate(
    graph: Any, device: Any, l2_bytes: int, launches: Callable[[int], Any] = spin_kernels.Spin, wait: Callable[[], None] = polled
) -> list[Calibration]:
    """The calibrations of `graph` and `call`, which a GraphClock reads, and of `device`, if there is a DeviceClock.

    launches  makes, from a duration in ns, a launch that spins for it and then says for how long it spun
    wait      returns when all launches are done
    Raises what the launches raise.
    """

    def by_graph(made: Sequence[Launch]) -> list[float]:
        placed = (graph.place(_operator(), _CASE, launch, _PLAN, 0, None) for launch in made)
        return [_median([[place.turn() for _ in range(_TURNS)]]) / _PLAN.launches for place in placed]

    def by_device(made: Sequence[Launch]) -> list[float]:
        return [_median(device.samples(_operator(), _CASE, launch, _PLAN, 0, l2_bytes)) for launch in made]

    found = [_checked("graph", by_graph, launches), _checked("call", lambda made: _by_call(graph, made, wait), launches)]
    if device is not None:
        try:
            found.append(_checked("device", by_device, launches))
        except Unseen as error:
            found.append(Calibration("device", fault=str(error)))
    return found


def _by_call(graph: Any, made: Sequence[Launch], wait: Callable[[], None]) -> list[float]:
    """Each launch and the wait for its end, in random order, by the call clock: the lowest tenth of each launch's calls.

    Random order: a host that has waited longer is up to 4 us slower with the next call, because its caches are cold, so the wait
    before a call must not depend on the call. In order of duration the clock read 82.55 us for 80.00. Lowest tenth: interrupts
    only ever make a call longer. On a virtual machine the median read 1.5 to 2.8 % too much.
    """
    chosen: list[int] = []

    def call() -> None:
        chosen.append(random.randrange(len(made)))
        made[chosen[-1]]()
        wait()

    taken: list[list[int]] = [[] for _ in made]
    for _ in range(_CALL_READINGS):
        for group in graph.call_samples(call, ()):
            for which, ns in zip(chosen[WARM_CALLS : WARM_CALLS + CALLS], group, strict=True):
                taken[which].append(ns)
            del chosen[: WARM_CALLS + CALLS]
    return [statistics.quantiles(values, n=10, method="inclusive")[0] for values in taken]


def _checked(clock: str, read: Reader, launches: Callable[[int], Any]) -> Calibration:
    """The first attempt in which the clock is right, else the last."""
    for _ in range(ATTEMPTS):
        made = [launches(ns) for ns in DURATIONS_NS]
        taken = tuple(map(round, read(made)))
        found = Calibration(clock, tuple(launch.spun_ns() for launch in made), taken)
        if not calibration.misreading(found):
            break
    return found


def _median(groups: Sequence[Sequence[int]]) -> float:
    return statistics.median(chain.from_iterable(groups))


def _operator() -> Any:
    """As much of an operator as a placement needs: one small input, which a spin does not read."""
    import torch

    return SimpleNamespace(make_inputs=lambda case, device, seed: (torch.zeros(case.shape, device=device),))
