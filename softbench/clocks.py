"""How time is taken: `graph` and `call` on CUDA, `cold` beside a warm graph, `wall` on the CPU. Integer nanoseconds.

A clock is made before any implementation is imported and keeps its own references to the timers, so that an
implementation that patches torch or time does not reach them.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from softbench.model import Case
    from softbench.operators import Operator

Launch = Callable[..., Any]

MAX_LAUNCHES = 500
REPLAY_NS = 1_000_000
"""A replay lasts about this long at the theoretical peak: an event pair's own 1.5 us is then at most 0.15 %."""
MIN_LAUNCHES = 2
_CALLS = 20
_CALL_GROUPS = 5


@dataclass(frozen=True)
class Plan:
    """How one sample of a case is taken: `launches` a sample over `inputs` distinct inputs, L2 "cold" or "warm"."""

    launches: int
    inputs: int
    cache: str

    def bytes_held(self, input_bytes: int, output_bytes: int) -> int:
        """Device memory of one placement."""
        return self.inputs * input_bytes + self.launches * output_bytes


def plan_graph(input_bytes: int, output_bytes: int, l2_bytes: int, peak_gb_s: float) -> Plan:
    """Launches a replay so that it touches at least twice the L2 and lasts about `REPLAY_NS`.

    Every launch has its own output; inputs come round again only after at least twice the L2 of other inputs.
    """
    moved = max(1, input_bytes + output_bytes)
    for_cache = math.ceil(2 * l2_bytes / moved)
    for_time = math.ceil(REPLAY_NS / (moved / peak_gb_s))
    launches = max(MIN_LAUNCHES, min(MAX_LAUNCHES, max(for_cache, for_time)))
    inputs = min(launches, max(1, math.ceil(2 * l2_bytes / max(1, input_bytes))))
    return Plan(launches, inputs, "cold" if for_cache <= MAX_LAUNCHES else "warm")


def plan_wall(call_ns: float) -> Plan:
    """Calls a sample on the CPU: about a millisecond, so that the timer and a context switch weigh little."""
    return Plan(max(1, min(200, math.ceil(REPLAY_NS / max(call_ns, 1.0)))), 2, "")


class Placement:
    """The buffers of one placement: distinct inputs, one output a launch."""

    def __init__(self, operator: Operator, case: Case, device: str, plan: Plan, seed: int) -> None:
        self.inputs = [operator.make_inputs(case, device, seed + i) for i in range(plan.inputs)]
        self.outputs: list[Any] = []

    def pick(self, rng: random.Random) -> tuple[tuple[torch.Tensor, ...], Any]:
        """One randomly chosen timed call: its inputs and what it wrote."""
        index = rng.randrange(len(self.outputs))
        return self.inputs[index % len(self.inputs)], self.outputs[index]


class WallClock:
    """Host time of a few calls on CPU tensors."""

    name = "wall"

    def __init__(self) -> None:
        self._now = time.perf_counter_ns

    def place(self, operator: Operator, case: Case, launch: Launch, plan: Plan, seed: int, old: Any) -> WallPlacement:
        placement = Placement(operator, case, "cpu", plan, seed)
        del old
        return WallPlacement(placement, launch, plan, self._now)

    def estimate(self, launch: Launch, inputs: tuple[Any, ...]) -> int:
        """Nanoseconds of the fastest of five calls."""
        best = 1 << 62
        for _ in range(5):
            start = self._now()
            launch(*inputs)
            best = min(best, self._now() - start)
        return best

    def close(self) -> None:
        return None


@dataclass
class WallPlacement:
    buffers: Placement
    launch: Launch
    plan: Plan
    now: Callable[[], int]

    def turn(self) -> int:
        """Nanoseconds of `plan.launches` calls, after one that is not timed."""
        inputs, launch = self.buffers.inputs, self.launch
        launch(*inputs[0])
        outputs = []
        start: int = self.now()
        for i in range(self.plan.launches):
            outputs.append(launch(*inputs[i % len(inputs)]))
        stop = self.now()
        self.buffers.outputs = outputs
        return stop - start


class GraphClock:
    """Replay of captured launches between two events."""

    name = "graph"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._event, self._stream = torch.cuda.Event, torch.cuda.Stream
        self._synchronize, self._graph = torch.cuda.synchronize, torch.cuda.CUDAGraph
        self._empty_cache, self._use = torch.cuda.empty_cache, torch.cuda.stream
        self._now = time.perf_counter_ns
        self._rng = random.Random()
        self._flush: torch.Tensor | None = None

    def place(self, operator: Operator, case: Case, launch: Launch, plan: Plan, seed: int, old: Any) -> GraphPlacement:
        """Buffers and a captured graph at a new place, made while the `old` placement still holds its own.

        A spacer of random size moves what follows; the old buffers are then given back to the driver, because a caching
        allocator would hand the very same block out again. Raises what the capture raises.
        """
        spacer = self._torch.empty(self._rng.randrange(1, 32) << 21, dtype=self._torch.uint8, device="cuda")
        buffers = Placement(operator, case, "cuda", plan, seed)
        graph, stream = self._graph(), self._stream()
        stream.wait_stream(self._torch.cuda.current_stream())
        with self._use(stream):
            launch(*buffers.inputs[0])
            self._synchronize()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for i in range(plan.launches):
                    buffers.outputs.append(launch(*buffers.inputs[i % plan.inputs]))
            finally:
                graph.capture_end()
        if old is not None:
            old.release()
        self._empty_cache()
        start, stop = self._event(enable_timing=True), self._event(enable_timing=True)
        return GraphPlacement(buffers, spacer, graph, start, stop, self._synchronize)

    def call_samples(self, launch: Launch, inputs: tuple[Any, ...]) -> list[list[int]]:
        """Host nanoseconds to enqueue one call, in groups that never fill the queue."""
        groups = []
        for _ in range(_CALL_GROUPS):
            for _ in range(3):
                launch(*inputs)
            self._synchronize()
            group = []
            for _ in range(_CALLS):
                start = self._now()
                launch(*inputs)
                group.append(self._now() - start)
            self._synchronize()
            groups.append(group)
        return groups

    def cold_samples(self, launch: Launch, inputs: tuple[Any, ...], l2_bytes: int) -> list[list[int]]:
        """Single launches between two events behind a flush of the L2; reads about 1.3 us above the kernel itself."""
        if self._flush is None or self._flush.numel() < 2 * l2_bytes:
            self._flush = self._torch.empty(2 * l2_bytes, dtype=self._torch.uint8, device="cuda")
        start, stop = self._event(enable_timing=True), self._event(enable_timing=True)
        groups: list[list[int]] = []
        for _ in range(_CALL_GROUPS):
            groups.append([])
            for _ in range(_CALLS // 2):
                self._flush.fill_(1)
                start.record()
                launch(*inputs)
                stop.record()
                self._synchronize()
                groups[-1].append(round(start.elapsed_time(stop) * 1e6))
        return groups

    def close(self) -> None:
        """Give all cached memory back, so that the next entrant finds the card free."""
        self._flush = None
        self._synchronize()
        self._empty_cache()


@dataclass
class GraphPlacement:
    buffers: Placement
    spacer: Any
    graph: Any
    start: Any
    stop: Any
    synchronize: Callable[[], None]

    def turn(self) -> int:
        """Nanoseconds of one replay, behind one that is not timed: it halves the spread."""
        self.graph.replay()
        self.start.record()
        self.graph.replay()
        self.stop.record()
        self.synchronize()
        milliseconds: float = self.start.elapsed_time(self.stop)
        return round(milliseconds * 1e6)

    def release(self) -> None:
        self.graph.reset()
        self.buffers.inputs.clear()
        self.buffers.outputs.clear()
        self.spacer = None
