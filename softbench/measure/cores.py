"""Which of the machine's cores a thread runs on. Standard library only."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

PINNED = "SOFTBENCH_THREADS"
"""Variable of a worker's environment: the threads that it may have in a timed case on a CPU."""


def threads(asked: int) -> int:
    """Of a worker that is timed on a CPU: as many as were asked, else as OMP_NUM_THREADS says, else one.

    On a busy machine torch's own choice, all cores, spreads by more than 100 %, one thread by 2 to 29 %.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return asked or (int(given) if given.isdigit() and int(given) else 1)


def pinning(asked: int) -> dict[str, str]:
    """What tells workers so; nothing where the user's OMP_NUM_THREADS already does, of checks as well."""
    return {} if not asked and os.environ.get("OMP_NUM_THREADS") else {PINNED: str(threads(asked))}


def in_turn(count: int) -> Iterator[int]:
    """Yield 0 to count - 1, each with the calling thread on one core, another one each time as far as there are others.

    Which cores they are is drawn anew at each call; at the end the thread may run on all again that it had before.
    """
    allowed = os.sched_getaffinity(0)
    chosen = random.sample(sorted(allowed), min(count, len(allowed)))
    try:
        for number in range(count):
            os.sched_setaffinity(0, {chosen[number % len(chosen)]})
            yield number
    finally:
        os.sched_setaffinity(0, allowed)
