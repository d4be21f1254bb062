"""Which of several plans is the fastest for a case on this GPU: measured once, remembered on disk."""

import contextlib
import hashlib
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import torch
import triton
from triton.runtime import driver

from . import _launch, _plans

ROUNDS = 15
ROUND_S = 0.5e-3
"""Time of one candidate's turn: events resolve half a microsecond, and launches queue up after the first."""
CYCLES_PER_S = 2e9
"""At most, of a Hopper GPU."""
LIMIT_S = 40.0
"""No further candidate is compiled after this; a factory may take 120 s."""
MOST_THREADS = 8
COLD_BYTES = 2**28
"""Inputs and outputs alternate among at least this many bytes, four times the L2 of an H200."""


def choose(case):
    """The plan of a case: the remembered one, or the fastest now; the default one where nothing is to be measured.

    Without a GPU, in the interpreter, and for cases that are checked only, are not contiguous or are not softmax rows of
    1 MiB and more together, the default plan stands.
    """
    default = _plans.best(case)
    worth = case.timed and case.layout == "contiguous" and case.elements * _plans.ITEM_BYTES[case.dtype] >= 2**20
    if not worth or os.environ.get("TRITON_INTERPRET") == "1" or not torch.cuda.is_available():
        return default
    plans = _plans.candidates(case)
    path = folder() / f"{key(case, plans, torch.cuda.get_device_name())}.json"
    kept = read(path, plans)
    if kept is not None:
        return kept
    times = measure(case, plans)
    if not times:
        return default
    chosen = min(times, key=times.__getitem__)
    write(path, case, chosen, times)
    return chosen


def folder():
    """Where choices are kept: triton/ in $SOFTBENCH_CACHE_DIR, else ~/.cache/softbench/triton."""
    chosen = os.environ.get("SOFTBENCH_CACHE_DIR")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "softbench") / "triton"


def key(case, plans, gpu):
    """Digest of all that a choice depends on: case, GPU, triton, the plans in question and the kernels' sources."""
    words = [case.id, gpu, triton.__version__, torch.__version__, *map(repr, plans)]
    digest = hashlib.sha256("\0".join(words).encode())
    for path in sorted(Path(__file__).parent.glob("_*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def read(path, plans):
    """The plan that a file of choices names; None where there is none, or none of these plans."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["plan"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return next((plan for plan in plans if asdict(plan) == kept), None)


def write(path, case, plan, times):
    """Put a choice on disk in one step; if the disk cannot be written, the next run measures again."""
    entry = {"case": case.id, "plan": asdict(plan), "us": [[round(t * 1e6, 2), asdict(p)] for p, t in times.items()]}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(entry, file)
        os.replace(file.name, path)
    except OSError:
        return


def measure(case, plans):
    """Seconds per launch of each plan that compiles and runs: the least of shuffled rounds.

    The least and not the median, since other workers may have the GPU while this one measures.
    """
    started = time.monotonic()
    dtype = getattr(torch, case.dtype)
    count = max(1, min(64, -(-COLD_BYTES // (case.elements * dtype.itemsize))))
    inputs = [torch.randn(case.shape, device="cuda").to(dtype) for _ in range(count)]
    compile_all(case, plans, started + LIMIT_S)
    launches = {}
    for plan in plans:
        if time.monotonic() - started > LIMIT_S:
            break
        launch = _launch.prepare(case, plan)
        try:
            launch(inputs[0])
            torch.cuda.synchronize()
        except (triton.runtime.errors.OutOfResources, triton.runtime.errors.PTXASError):
            continue
        launches[plan] = launch
    return race(launches, inputs)


def compile_all(case, plans, deadline):
    """Compile on several cores; `launch` then finds the kernels on disk. What a plan raises, it raises there again."""
    target = driver.active.get_current_target()

    def attempt(plan):
        with contextlib.suppress(Exception):
            if time.monotonic() < deadline:
                _launch.compile_dense(case, plan, target)

    with ThreadPoolExecutor(max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) // 2))) as pool:
        list(pool.map(attempt, plans))


def race(launches, inputs):
    """Seconds per launch by plan, from rounds in which each plan has a turn of about ROUND_S.

    The GPU waits before a turn until all of its launches are queued: short ones would have the host's time, all the same.
    """
    kept = [None] * len(inputs)

    def turn(launch, repeats, queued_s):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(repeats * queued_s * CYCLES_PER_S))
        start.record()
        began = time.perf_counter()
        for i in range(repeats):
            kept[i % len(kept)] = launch(inputs[i % len(inputs)])
        host_s = time.perf_counter() - began
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / repeats, host_s / repeats

    tried = [turn(launch, 2, 100e-6) for launch in launches.values()]
    least, host_s = (min(seconds, default=1.0) for seconds in (zip(*tried, strict=True) if tried else ([], [])))
    repeats, queued_s = max(4, min(200, int(ROUND_S / least))), 1.5 * host_s
    times = dict.fromkeys(launches, float("inf"))
    order = list(launches)
    for i in range(ROUNDS):
        for plan in order[i % len(order) :] + order[: i % len(order)] if order else ():
            times[plan] = min(times[plan], turn(launches[plan], repeats, queued_s)[0])
    return times
