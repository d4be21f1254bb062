"""Two clocks of the host that time every turn on a CPU, one inside the other: a turn on which they disagree is refused.

Both are taken before any implementation is imported, and every turn checks that they are still Python's own functions.
"""

import time
from typing import Any

APART = 0.02
"""Share by which the speeds of the two clocks may differ: the system slews one of them, usually by 0.05 %."""
APART_NS = 2_000
OTHER = getattr(time, "CLOCK_MONOTONIC_RAW", getattr(time, "CLOCK_MONOTONIC", 0))
_MODULE, _BUILTIN = time, type(time.perf_counter_ns)


def disagreement(ns: int, least: int, most: int) -> str:
    """What is wrong with a time of which another clock gives the bounds, all in ns; "" if nothing is.

    However long the process pauses between two readings, the time lies between the two times of the other clock.
    """
    if least * (1 - APART) - APART_NS <= ns <= most * (1 + APART) + APART_NS:
        return ""
    return f"clock: {ns} ns by one clock of the host, and {least} to {most} ns by another"


def replaced(now: Any, other: Any) -> str:
    """What is wrong if a timer is not Python's own function, whose fields that are read here cannot be set; else ""."""
    for timer, name in ((now, "perf_counter_ns"), (other, "clock_gettime_ns")):
        is_own = type(timer) is _BUILTIN and getattr(timer, "__self__", None) is _MODULE and timer.__name__ == name
        if not is_own:
            return "patched: a clock of the harness was replaced"
    return ""
