"""Runs one launch, and sees more than its output's values: bytes past the ends, work that is not done yet."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softbench.cases.operators import get
from softbench.cases.operators.inputs import bits, same_bits
from softbench.cases.operators.outputs import as_tuple
from softbench.measure.check import canary
from softbench.measure.check.judging import structure
from softbench.model import Case, Tensor

SEEN_ELEMENTS = 2**24  # at the end of each output, which is written last
LAST_ELEMENTS = 2**14  # of these, seen first, before work on other streams can finish
HOLD_CYCLES = 2_000_000  # a millisecond of a GPU at 2 GHz, far longer than a launch takes to enqueue
PATIENCE_S = 1.0  # for 10 ms of work in a thread of a busy machine; only if the output is wrong already


@dataclass(frozen=True)
class Launched:
    """What a launch returned.

    outputs  a tuple, also of one output
    reason   what is wrong with them apart from their values
    seen     copies of the outputs' ends, as the current stream or the CPU saw them when the launch had returned
    """

    outputs: tuple[Any, ...]
    reason: str
    seen: tuple[Tensor, ...]
    device: str

    def late(self, *, patient: bool = False) -> str:
        """What is wrong if the output has changed since; patient, if it is wrong: wait for a thread of the host to change it."""
        import torch

        if not self.seen:
            return ""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        deadline = time.monotonic() + (PATIENCE_S if patient else 0.0)
        while not self._has_changed():
            if time.monotonic() >= deadline:
                return ""
            time.sleep(0.01)
        if self.device == "cpu":
            return "left unfinished: the output changed after the launch had returned"
        return "work on another stream: the output changed after the current stream had passed the launch"

    def _has_changed(self) -> bool:
        return not all(same_bits(seen, _end(y, seen.numel())) for seen, y in zip(self.seen, self.outputs, strict=False))


def run(
    case: Case, launch: Callable[..., Any], inputs: tuple[Tensor, ...], before: Callable[[], object] = lambda: None
) -> Launched:
    """Run a launch of which nothing can be unfinished when it returns, after `before`."""
    before()
    outputs = as_tuple(launch(*inputs))
    return Launched(outputs, structure(case, inputs, outputs), (), str(inputs[0].device))


def watch(
    case: Case, launch: Callable[..., Any], inputs: tuple[Tensor, ...], before: Callable[[], object] | None = None
) -> Launched:
    """Run a launch of code that may go on when it returns. Raises what it raises.

    On CUDA the current stream is kept busy while the launch is enqueued, so that work on a stream for which the current one does
    not wait is not seen in time.

    before  enqueues a change to the inputs, which a stream that does not wait for the current one misses. No canaries are
            planted then: the change takes memory of its own.
    """
    import torch

    device = str(inputs[0].device)
    is_cuda = inputs[0].device.type == "cuda"
    specs = get(case.operator).output_specs(case)
    seen = tuple(  # allocated before the canaries are planted, or it would lie among them
        torch.empty(min(math.prod(s.shape), SEEN_ELEMENTS), dtype=getattr(torch, s.dtype), device=device) for s in specs
    )
    planted = canary.plant(specs, device) if is_cuda and before is None else None
    _hold(device)
    if before is not None:
        before()
    outputs = as_tuple(launch(*inputs))
    reason = structure(case, inputs, outputs)
    if reason:
        return Launched(outputs, reason, (), device)
    for place, y in zip(seen, outputs, strict=True):
        _see(_end(y, place.numel()), place)
    return Launched(outputs, planted.overrun(outputs) if planted is not None else "", seen, device)


def _see(y: Tensor, place: Tensor) -> None:
    """Copy the bits of a dense tensor, its last elements first, on the current stream.

    By kernels: a copy engine starts later, when another stream that waited for the same event has done much already.
    """
    import torch

    source, target = bits(y), bits(place)
    cut = max(0, source.numel() - LAST_ELEMENTS)
    for part in (slice(cut, None), slice(0, cut)):
        torch.bitwise_or(source[part], 0, out=target[part])


def _hold(device: str) -> None:
    """Keep the current stream of a GPU busy for a while, if torch can."""
    import torch

    sleep = getattr(torch.cuda, "_sleep", None)
    if device != "cpu" and sleep is not None:
        sleep(HOLD_CYCLES)


def _end(y: Tensor, count: int) -> Tensor:
    """The last elements of a dense tensor in memory, as a view."""
    return y.detach().as_strided((y.numel(),), (1,))[y.numel() - count :]
