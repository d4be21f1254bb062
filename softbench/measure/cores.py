"""Which of the machine's cores a thread runs on. Standard library only."""

import os
import random
from collections.abc import Iterator

PINNED = "SOFTBENCH_THREADS"
"""Environment variable of a worker: its threads in a timed case on a CPU."""


def threads(asked: int) -> int:
    """Threads of a worker that is timed on a CPU: as many as requested, else OMP_NUM_THREADS, else one.

    On a busy machine times with torch's own choice, all cores, spread by more than 100 %; with one thread by 2 to 29 %.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return asked or (int(given) if given.isdigit() and int(given) else 1)


def pinning(asked: int) -> dict[str, str]:
    """The environment that tells workers; empty if the user's OMP_NUM_THREADS already does, for checks too."""
    return {} if not asked and os.environ.get("OMP_NUM_THREADS") else {PINNED: str(threads(asked))}


def in_turn(count: int) -> Iterator[int]:
    """Yield 0 to count - 1, each with the calling thread on one core, and on another core each time while there are others.

    The cores are drawn at random for each call; at the end the thread may run on all its cores again.
    """
    allowed = os.sched_getaffinity(0)
    chosen = random.sample(sorted(allowed), min(count, len(allowed)))
    try:
        for number in range(count):
            os.sched_setaffinity(0, {chosen[number % len(chosen)]})
            yield number
    finally:
        os.sched_setaffinity(0, allowed)
