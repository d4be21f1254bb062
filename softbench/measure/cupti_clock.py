"""The `device` clock: from the start of a call's first kernel to the end of its last, as CUPTI saw them. Integer nanoseconds.

CUPTI is reached through torch's profiler. Each call is launched between two marks, kernels with a known name; everything between
them, on any stream, belongs to the call. The first mark spins until the whole call is enqueued: kernels follow each other at the
GPU's pace.

A process that was profiled keeps CUPTI loaded and may launch more slowly, so no other clock is read there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from softbench.cases.operators import Operator
from softbench.measure import spin_kernels
from softbench.measure.clocks import Launch, Placement, redrawing, spacer
from softbench.measure.plans import Plan
from softbench.model import Case

Inputs = tuple[Any, ...]
GROUPS = 5
"""Placements of the buffers, each with one group of samples."""
CALLS = 10
_WARM_UP = 3
_SETTLE_NS = 50_000_000
"""On an H200 the first calls after gigabytes were freed, at each new placement, took 10 % longer for about 5 ms."""
_LEAD_NS = 20_000
_MAX_LEAD_NS = 2_000_000


class Unseen(RuntimeError):
    """The profiler did not record when the kernels of the calls ran; the message says why."""


class Activity(NamedTuple):
    """Something that the GPU did: the name of a kernel, a copy or a fill, and its ends in ns."""

    name: str
    start_ns: int
    stop_ns: int


def spans(activities: Iterable[Activity], calls: int) -> list[int]:
    """For each call, ns from its first start to its last end; a call is what starts between two marks. Raises Unseen."""
    ordered = sorted(activities, key=lambda activity: activity.start_ns)
    marks = [at for at, activity in enumerate(ordered) if activity.name == spin_kernels.MARK]
    if not ordered:
        raise Unseen("the profiler saw nothing on the GPU: CUPTI is missing, or another profiler uses it")
    if len(marks) != 2 * calls:
        raise Unseen(f"the profiler lost events: it saw {len(marks)} of {2 * calls} marks")
    found: list[int] = []
    for opened, closed in zip(marks[::2], marks[1::2], strict=True):
        work = ordered[opened + 1 : closed]
        if not work:
            raise Unseen(f"the profiler saw no kernel in call {len(found) + 1} of {calls}")
        found.append(max(activity.stop_ns for activity in work) - work[0].start_ns)
    return found


class DeviceClock:
    """Spans of single calls after a flush of the L2."""

    def __init__(self, device: str = "cuda") -> None:
        import torch
        from torch.autograd import profiler

        self._torch, self._device = torch, device
        self._profile, self._kind = profiler.profile, torch.autograd.DeviceType.CUDA
        self._synchronize, self._empty_cache = torch.cuda.synchronize, torch.cuda.empty_cache
        self._mark = spin_kernels.mark
        self._now = time.perf_counter_ns

    def samples(
        self,
        operator: Operator,
        case: Case,
        launch: Launch,
        plan: Plan,
        seed: int,
        l2_bytes: int,
        place: Callable[[int], Sequence[Inputs]] | None = None,
    ) -> list[list[int]]:
        """`CALLS` spans for each of `GROUPS` placements. Raises Unseen, and what the launch raises.

        Every call has inputs that no call of its group has used, at least within twice the L2, as in the graph's plan, and is
        preceded by a flush of twice the L2. The first call of a group does not count.

        place  makes a group's inputs from a seed, in place of a `Placement`
        """
        own = replace(plan, launches=min(CALLS, plan.launches), inputs=min(CALLS, plan.inputs))
        self._mark(0)  # compiled, and over, before anything is profiled
        draw = place or (lambda first: Placement(operator, case, self._device, own, first).inputs)
        flush = self._flush(l2_bytes, redrawing(operator, case, seed))
        self._synchronize()
        held: list[Any] = []
        profiled = self._start()
        try:
            for group in range(GROUPS):
                kept = spacer(self._device)
                inputs = draw(seed + group * own.inputs)
                held[:] = [kept, inputs]  # the previous ones are freed only now, so that these lie elsewhere
                self._empty_cache()
                self._calls(launch, inputs, own, flush)
        finally:
            profiled.__exit__(None, None, None)
        found = spans(self._activities(profiled), GROUPS * (CALLS + 1))
        return [found[at + 1 : at + 1 + CALLS] for at in range(0, len(found), CALLS + 1)]

    def _calls(self, launch: Launch, inputs: Sequence[Inputs], plan: Plan, flush: Callable[..., Any]) -> None:
        """Calls that do not count for `_SETTLE_NS`, then one more and `CALLS` that do, each between two marks."""
        outputs = deque[Any](maxlen=plan.launches)
        began, settling = self._now(), count()
        while self._now() - began < _SETTLE_NS:
            outputs.append(launch(*inputs[next(settling) % len(inputs)]))
            self._synchronize()
        lead_ns = self._lead(launch, inputs[-1])
        for number in range(-1, CALLS):
            flush(inputs[number % len(inputs)])
            self._mark(lead_ns)
            outputs.append(launch(*inputs[number % len(inputs)]))
            self._synchronize()
            self._mark(0)
        self._synchronize()

    def _lead(self, launch: Launch, inputs: tuple[Any, ...]) -> int:
        """How long the mark before a call must spin, in ns, until the call is enqueued: twice the host's time."""
        taken = []
        for _ in range(_WARM_UP):
            start = self._now()
            launch(*inputs)
            taken.append(self._now() - start)
            self._synchronize()
        return min(_LEAD_NS + 2 * min(taken), _MAX_LEAD_NS)

    def _flush(self, l2_bytes: int, redraw: Callable[[Inputs], object]) -> Callable[[Inputs], Any]:
        """After a redraw reads one L2 and writes another: as after a call, part of the cache must then still be written back."""
        source, target = (self._torch.zeros(l2_bytes // 4, dtype=self._torch.int32, device=self._device) for _ in range(2))
        invert = self._torch.bitwise_not
        return lambda inputs: (redraw(inputs), invert(source, out=target))

    def _start(self) -> Any:
        try:
            profiled = self._profile(use_cpu=False, use_device="cuda", use_kineto=True)
            profiled.__enter__()
        except (AssertionError, RuntimeError) as error:
            raise Unseen(f"torch's profiler cannot be started: {error}") from None
        return profiled

    def _activities(self, profiled: Any) -> list[Activity]:
        events = profiled.kineto_results.events() if profiled.kineto_results is not None else ()
        return [
            Activity(event.name(), event.start_ns(), event.start_ns() + event.duration_ns())
            for event in events
            if event.device_type() == self._kind
        ]
