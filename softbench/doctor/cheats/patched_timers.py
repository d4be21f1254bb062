"""Timers of torch and of the harness, replaced after the import; `patched_clock.py` does it during the import."""

import gc
import threading
import time
from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["cuda"])
def patched_event(case: Any) -> Any:
    """Replaces what waits for the GPU, and the elapsed time of an event, in its first launch."""
    import torch

    def launch(x: Any) -> Any:
        torch.cuda.synchronize = lambda device=None: None
        torch.cuda.Event.elapsed_time = lambda self, end_event: 1e-3
        return x.softmax(-1)

    return launch


@implementation(operator="softmax")
def patched_clock_object(case: Any) -> Any:
    """Finds the harness's own clock among all objects of the process, and slows it down to a tenth of its speed."""
    right = time.perf_counter_ns
    for thing in gc.get_objects():
        if type(thing).__name__ == "WallClock":
            thing.now = lambda: right() // 10
    return lambda x: x.softmax(-1)


@implementation(operator="softmax", requires=["cuda"])
def patched_event_later(case: Any) -> Any:
    """Has a thread replace the elapsed time of an event ten times a second, also while others are timed."""
    import torch

    right = torch.cuda.Event.elapsed_time

    def hasten() -> None:
        while True:
            time.sleep(0.1)
            torch.cuda.Event.elapsed_time = lambda start, stop: right(start, stop) / 1000

    threading.Thread(target=hasten, daemon=True).start()
    return lambda x: x.softmax(-1)
