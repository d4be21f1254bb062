"""Timers of torch and of the harness, replaced after the import; `patched_clock.py` does it during the import."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def patched_synchronize(case: Any) -> Any:
    """Replaces torch.cuda.synchronize with nothing, in its factory, so that a clock stops before the work is done."""
    import torch

    torch.cuda.synchronize = lambda device=None: None
    return lambda x: x.softmax(-1)


@implementation(operator="softmax", requires=["torch"])
def patched_event(case: Any) -> Any:
    """Replaces the elapsed time of an event, in its first launch."""
    import torch

    def launch(x: Any) -> Any:
        torch.cuda.Event.elapsed_time = lambda self, end_event: 1e-3
        return x.softmax(-1)

    return launch


@implementation(operator="softmax", requires=["torch"])
def patched_clock_object(case: Any) -> Any:
    """Finds the harness's own clock among all objects of the process, and slows it down to a tenth of its speed."""
    import gc
    import time

    right = time.perf_counter_ns
    for thing in gc.get_objects():
        if type(thing).__name__ == "WallClock":
            thing.now = lambda: right() // 10
    return lambda x: x.softmax(-1)


@implementation(operator="softmax", requires=["cuda", "torch"])
def patched_timers_object(case: Any) -> Any:
    """Finds the harness's own timers among all objects of the process, and has them report a thousandth of each time."""
    _hasten()
    return lambda x: x.softmax(-1)


@implementation(operator="softmax", requires=["cuda", "torch"])
def patched_timers_later(case: Any) -> Any:
    """Has a thread do the same ten times a second, also while others are timed."""
    import threading
    import time

    def hasten() -> None:
        while True:
            time.sleep(0.1)
            _hasten()

    threading.Thread(target=hasten, daemon=True).start()
    return lambda x: x.softmax(-1)


def _hasten() -> None:
    import gc

    import torch

    right = torch.cuda.Event.elapsed_time
    for thing in gc.get_objects():
        if type(thing).__name__ == "Timers":
            object.__setattr__(thing, "elapsed_ms", lambda start, stop: right(start, stop) / 1000)
