"""Which of the machine's cores a thread runs on. Standard library only."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator


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
