"""A program to run under a profiler: calls of one variant in a row, the last of which are profiled.

    main('{"case": {...}, "plan": {...}, "calls": N, "seed": N, ...}')

What is called is either an implementation ("path", "name", "source_hash", "params"), or each of "sealed", which authors handed over
("handed_over", "digest"), and then "roofs"; no implementation is imported, a kernel named "marker" runs between two, and the file
"counts" says how many calls and kernels there were.

The profiler is switched on for 2 N calls, each with inputs and outputs that no other call has used within twice the L2.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import byref, c_void_p
from itertools import cycle
from pathlib import Path
from typing import Any

from softbench.cases import operators
from softbench.measure import clocks
from softbench.measure.plans import Plan
from softbench.measure.worker import loading, proving
from softbench.measure.worker.wire import Message, case_of


def main(argument: str) -> None:
    """Make the calls; raises what the implementation raises, or BadHandOver."""
    request = json.loads(argument)
    (referee if "sealed" in request else author)(request)


def author(request: Message) -> None:
    """Import an implementation or a roof, and stream it. The first call compiles and chooses."""
    proving.take_operator(request)
    case, plan = case_of(request["case"]), Plan(**request["plan"])
    launch = loading.load(Path(request["path"]), request["name"], request["source_hash"])(case, **request["params"])
    inputs = clocks.Placement(operators.get(case.operator), case, "cuda", plan, request["seed"]).inputs
    stream(launch, inputs, request["calls"], plan.launches)


def referee(request: Message) -> None:
    """Rebuild what was handed over, and stream it: one after the other, each alone in memory."""
    import torch

    from softbench.measure.sealed import handover
    from softbench.measure.sealed.launch import SealedLaunch
    from softbench.measure.sealed.memory import Memory

    memory = Memory()  # before there is a context
    counts: list[Message] = []
    proving.take_operator(request)
    case, seed = case_of(request["case"]), request["seed"]
    like = operators.get(case.operator).make_inputs(case, "meta", seed)
    torch.cuda.synchronize()
    for sealed in request["sealed"]:
        if counts:
            profiled(lambda: mark(request["marker"]), 1)
        package = handover.read(Path(sealed["handed_over"]), sealed["digest"])
        launch = SealedLaunch(package, memory, like, case)
        found = launch.stream(Plan(**request["plan"]), seed, request["calls"])
        profiled(found.replay, found.replays)
        counts.append({"calls": found.calls, "launched": found.kernels, "unseen": found.unseen})
        launch.close()
        memory.free_all()
        torch.cuda.empty_cache()
    for roof in request["roofs"]:
        profiled(lambda: mark(request["marker"]), 1)
        author(request | roof)
        counts.append({"calls": request["calls"]})
    Path(request["counts"]).write_text(json.dumps(counts))


def mark(name: str) -> None:
    """Run a kernel of this name that does nothing, and let lines go that others asked the L2 to keep."""
    from softbench.measure.sealed.driver import driver

    text = f".version 7.8 .target sm_90 .address_size 64 .visible .entry {name}() {{ ret; }}".encode()
    cuda, module, function = driver(), c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), text)
    cuda.cuModuleGetFunction(byref(function), module, name.encode())
    cuda.cuLaunchKernel(function, *[1] * 6, 0, None, None, None)
    cuda.cuCtxResetPersistingL2Cache()


def stream(launch: clocks.Launch, inputs: Sequence[tuple[Any, ...]], calls: int, held: int) -> None:
    """A call, then 2 * `calls` over the inputs in turn while the profiler is on.

    held  how many outputs are kept at a time: the memory of one that is freed is used again
    """
    import torch

    kept: deque[Any] = deque(maxlen=held)
    kept.append(launch(*inputs[-1]))
    torch.cuda.synchronize()
    ring = cycle(inputs)
    profiled(lambda: kept.append(launch(*next(ring))), 2 * calls)


def profiled(call: Callable[[], object], times: int) -> None:
    """Call so often while the profiler is on."""
    import torch

    torch.cuda.profiler.start()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
