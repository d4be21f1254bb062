"""A program to run under a profiler: calls of one variant in a row, the last of which are profiled.

    python -m softbench.measure.worker.streamed '{"case": {...}, "path": ..., "name": ..., "source_hash": ..., "params": {...},
                                          "plan": {...}, "calls": N, "seed": N}'

The first call compiles and chooses; then the profiler is switched on for 2 N calls. Calls that together move less than the L2
would find their own data there, so each has inputs and outputs that no other call has used within at least twice the L2.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from softbench.cases import operators
from softbench.measure import clocks
from softbench.measure.plans import Plan
from softbench.measure.worker import loading, proving
from softbench.measure.worker.wire import case_of


def main(argument: str) -> None:
    """Make the calls; raises what the implementation raises."""
    request = json.loads(argument)
    proving.take_operator(request)
    case = case_of(request["case"])
    operator = operators.get(case.operator)
    plan = Plan(**request["plan"])
    launch = loading.load(Path(request["path"]), request["name"], request["source_hash"])(case, **request["params"])
    inputs = clocks.Placement(operator, case, "cuda", plan, request["seed"]).inputs
    stream(launch, inputs, request["calls"], plan.launches)


def stream(launch: clocks.Launch, inputs: Sequence[tuple[Any, ...]], calls: int, held: int) -> None:
    """A call, then 2 * `calls` over the inputs in turn while the profiler is on.

    held  how many outputs are kept at a time: the memory of one that is freed is used again
    """
    import torch

    start, stop = torch.cuda.profiler.start, torch.cuda.profiler.stop
    kept: deque[Any] = deque(maxlen=held)
    kept.append(launch(*inputs[-1]))
    torch.cuda.synchronize()
    start()
    for number in range(2 * calls):
        kept.append(launch(*inputs[number % len(inputs)]))
    torch.cuda.synchronize()
    stop()


if __name__ == "__main__":
    main(sys.argv[1])
