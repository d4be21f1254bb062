"""How time is taken on CUDA: the clocks `graph`, `call` and, if the graph is warm, `cold`. Integer nanoseconds.

`wall` is in `softbench.measure.wall`, `device` in `softbench.measure.cupti_clock`.

A clock is made before any implementation is imported and keeps its own references to the timers and their methods, out of reach
of an implementation that patches torch or time. Before every timed replay all outputs are poisoned and all inputs change
(`renew`); on the CPU one element of one input changes before every turn. Anything computed earlier is then wrong. `repeat` finds
a kernel that skips an input which it has already seen in the same turn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softbench.cases.operators.changes import nudge
from softbench.cases.operators.inputs import same_bits
from softbench.cases.operators.outputs import as_tuple, lazy
from softbench.measure import cores
from softbench.measure.plans import Plan
from softbench.measure.renew import Renewal

if TYPE_CHECKING:
    import torch

    from softbench.cases.operators import Operator
    from softbench.model import Case

Launch = Callable[..., Any]
COMPARED_CALLS = 8
COMPARED_ELEMENTS = 2**22
"""Most elements of the timed calls that are compared at a time, but at least one call: milliseconds on a GPU."""

_SETTLING = 2
"""Replays of a new placement that do not count: on an H200 the first two in new memory took 12 % longer."""
CALLS = 20
WARM_CALLS = 3
"""Calls at the start of each group that do not count."""
_CALL_GROUPS = 5
_CALL_CORES = 8
"""Groups of calls, each on another core. Some cores of a virtual machine were 1.5 times slower for a whole case, because of their
neighbours."""
_CALL_NS = 30_000_000
"""After this time no further core is tried. Kernels of more than 0.16 ms reach it; with those nobody waits for the host."""


def spacer(rng: random.Random, device: str) -> torch.Tensor:
    """Memory of random size, 2 to 62 MiB, which moves later allocations while it is held."""
    import torch

    return torch.empty(rng.randrange(1, 32) << 21, dtype=torch.uint8, device=device)


class Wrong(Exception):
    """What is wrong with timed calls, or with their time, in one line."""


class Placement:
    """The buffers of one placement: distinct inputs, one output per launch.

    What changes in the inputs and which calls are compared is drawn by the system, which has no state from which an
    implementation could learn it.
    """

    def __init__(
        self, operator: Operator, case: Case, device: str, plan: Plan, seed: int, inputs: Iterable[Any] | None = None
    ) -> None:
        drawn = (operator.make_inputs(case, device, seed + i) for i in range(plan.inputs))
        self.inputs = list(drawn if inputs is None else inputs)
        self.outputs: list[Any] = []
        self._in_use = min(plan.inputs, plan.launches) if case.elements else 0
        self._compared = max(1, min(COMPARED_CALLS, COMPARED_ELEMENTS // max(1, case.elements)))
        self._rng = random.SystemRandom()
        self._nudged = 0
        self.changed_at: tuple[int, ...] = ()
        """The index of the element that changed last."""
        self._kept: list[tuple[int, list[torch.Tensor]]] = []

    def nudge(self) -> None:
        """Change one element of the first tensor of one input."""
        self._nudged = self._rng.randrange(self._in_use or 1)
        self._change()

    def _change(self) -> None:
        if self._in_use:
            self.changed_at = nudge(self.inputs[self._nudged][0], self._rng)

    def keep(self) -> None:
        """Copy what some timed calls have written, the last call's first; `pick` then returns these calls.

        Raises Wrong if an output is lazy: its values would be computed while they are copied.
        """
        self._kept = []
        for index in dict.fromkeys([len(self.outputs) - 1, *self._draw()]):
            written = _tensors(self.outputs[index])
            if why := next(filter(None, map(lazy, written)), ""):
                raise Wrong(f"left lazy: {why}")
            self._kept.append((index, [_end(y).clone() for y in written]))

    def _draw(self) -> list[int]:
        chosen = [self._rng.randrange(self._nudged, len(self.outputs), len(self.inputs))]
        return chosen + self._rng.sample(range(len(self.outputs)), min(self._compared, len(self.outputs)) - 1)

    def pick(self) -> list[tuple[tuple[torch.Tensor, ...], Any]]:
        """Inputs and outputs of random timed calls, at least one of them on the input that changed last."""
        chosen = [index for index, _ in self._kept] or self._draw()
        return [(self.inputs[index % len(self.inputs)], self.outputs[index]) for index in chosen]

    def changed(self) -> str:
        """What is wrong if an output has changed since it was copied; "" if none has."""
        for index, copies in self._kept:
            if not all(map(same_bits, copies, map(_end, _tensors(self.outputs[index])))):
                return "left unfinished: the output changed after the timed calls had returned"
        return ""

    def repeat(self, launch: Launch, again: Launch | None = None) -> tuple[tuple[torch.Tensor, ...], Any]:
        """Launch twice on one input, which changes in between: the inputs and the output of the second launch (`again`)."""
        self.nudge()
        inputs = self.inputs[self._nudged]
        launch(*inputs)
        self._change()
        return inputs, (again or launch)(*inputs)


def _tensors(returned: Any) -> list[torch.Tensor]:
    """The tensors among the outputs of a launch; the comparison refuses anything else."""
    import torch

    return [y for y in as_tuple(returned) if issubclass(type(y), torch.Tensor)]


def _end(y: torch.Tensor) -> torch.Tensor:
    """The end of an output that is too long to be copied, which is written last; else all of it."""
    return y.detach().view(-1)[-COMPARED_ELEMENTS:] if y.is_contiguous() else y.detach()


@dataclass(frozen=True)
class Timers:
    """torch's functions of events and graphs, as they were before any implementation was imported."""

    record: Callable[[Any], None]
    elapsed_ms: Callable[[Any, Any], float]
    replay: Callable[[Any], None]
    synchronize: Callable[[], None]

    def elapsed_ns(self, start: Any, stop: Any) -> int:
        """Nanoseconds between two recorded events, once the device has passed both."""
        self.synchronize()
        return round(self.elapsed_ms(start, stop) * 1e6)


class GraphClock:
    """Replay of captured launches between two events."""

    name = "graph"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._event, self._stream = torch.cuda.Event, torch.cuda.Stream
        self._graph, self._use, self._empty_cache = torch.cuda.CUDAGraph, torch.cuda.stream, torch.cuda.empty_cache
        self.timers = Timers(
            self._event.record,
            self._event.elapsed_time,
            self._graph.replay,
            torch.cuda.synchronize,
        )
        self._now = time.perf_counter_ns
        self._rng = random.Random()
        self._flush: torch.Tensor | None = None

    def place(self, operator: Operator, case: Case, launch: Launch, plan: Plan, seed: int, old: Any) -> GraphPlacement:
        """Buffers and a captured graph at a new place, made while the `old` placement still holds its own.

        A spacer of random size moves what follows. The old buffers are then returned to the driver, because a caching allocator
        would hand out the same block again. Raises what the capture raises.
        """
        kept = spacer(self._rng, "cuda")
        buffers = Placement(operator, case, "cuda", plan, seed)
        with self._capturing(lambda: launch(*buffers.inputs[0])) as graph:
            for i in range(plan.launches):
                buffers.outputs.append(launch(*buffers.inputs[i % plan.inputs]))
        if old is not None:
            old.release()
        self._empty_cache()
        start, stop = self._event(enable_timing=True), self._event(enable_timing=True)
        renew = Renewal(buffers.inputs, buffers.outputs, is_warm=plan.cache == "warm")
        renew()  # what `get_ready` did not load is loaded here, while others are placed, and not in somebody's turn
        for _ in range(_SETTLING):
            self.timers.replay(graph)
        self.timers.synchronize()
        return GraphPlacement(buffers, kept, graph, start, stop, self.timers, renew)

    def get_ready(self, case: Case) -> None:
        """Load the kernels that renew buffers of such a case: at a time when others are still being built."""
        shape = (2, max(1, case.columns))
        x, y = (
            self._torch.zeros(shape, dtype=getattr(self._torch, d), device="cuda") for d in (case.dtype, case.out_dtype)
        )
        Renewal([(x,)], [y])()

    def repeat(self, launch: Launch, buffers: Placement) -> tuple[tuple[torch.Tensor, ...], Any]:
        """`Placement.repeat` in a graph: a kernel that keeps its output for an input during capture is wrong there."""
        with self._capturing() as graph:
            repeated = buffers.repeat(launch)
        self.timers.replay(graph)
        self.timers.synchronize()
        return repeated

    @contextmanager
    def _capturing(self, before: Callable[[], Any] = lambda: None) -> Iterator[torch.cuda.CUDAGraph]:
        """Capture the block on a stream of its own, after `before` has run on it."""
        graph, stream = self._graph(), self._stream()
        stream.wait_stream(self._torch.cuda.current_stream())
        with self._use(stream):
            before()
            self.timers.synchronize()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                yield graph
            finally:
                graph.capture_end()

    def call_samples(self, launch: Launch, inputs: tuple[Any, ...]) -> list[list[int]]:
        """Host nanoseconds to enqueue one call, in groups that never fill the queue, each on a core of its own.

        Fewer cores are tried if kernels take long: their callers do not wait for the host.
        """
        groups: list[list[int]] = []
        began = self._now()
        for _ in cores.in_turn(_CALL_CORES):
            if groups and self._now() - began > _CALL_NS:
                break
            for _ in range(WARM_CALLS):
                launch(*inputs)
            self.timers.synchronize()
            group = []
            for _ in range(CALLS):
                start = self._now()
                launch(*inputs)
                group.append(self._now() - start)
            self.timers.synchronize()
            groups.append(group)
        return groups

    def cold_samples(self, launch: Launch, inputs: tuple[Any, ...], l2_bytes: int) -> list[list[int]]:
        """Single launches between two events after a flush of the L2; reads about 1.3 us more than the kernel takes."""
        if self._flush is None or self._flush.numel() < 2 * l2_bytes:
            self._flush = self._torch.empty(2 * l2_bytes, dtype=self._torch.uint8, device="cuda")
        start, stop = self._event(enable_timing=True), self._event(enable_timing=True)
        groups: list[list[int]] = []
        for _ in range(_CALL_GROUPS):
            groups.append([])
            for _ in range(CALLS // 2):
                self._flush.fill_(1)
                self.timers.record(start)
                launch(*inputs)
                self.timers.record(stop)
                groups[-1].append(self.timers.elapsed_ns(start, stop))
        return groups

    def close(self) -> None:
        """Return all cached memory, so that the next entrant finds the GPU free."""
        self._flush = None
        self.timers.synchronize()
        self._empty_cache()


@dataclass
class GraphPlacement:
    buffers: Placement
    spacer: Any
    graph: Any
    start: Any
    stop: Any
    timers: Timers
    renew: Callable[[], None]

    def turn(self) -> int:
        """Nanoseconds of one replay, once everything that an earlier one could have left is removed.

        Persisting lines of the L2 become ordinary, all outputs are poisoned, and all inputs change.
        """
        self.renew()
        self.timers.record(self.start)
        self.timers.replay(self.graph)
        self.timers.record(self.stop)
        return self.timers.elapsed_ns(self.start, self.stop)

    def release(self) -> None:
        self.graph.reset()
        self.buffers.inputs.clear()
        self.buffers.outputs.clear()
        self.spacer = None
