"""What a worker's process may use of its machine."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def set_always() -> None:
    """No core files, and the first to go when the host runs out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass


def bound_memory() -> None:
    """Without a GPU, make an endless allocation fail with MemoryError before it exhausts the machine.

    With CUDA this cannot be limited: the driver reserves far more address space than there is memory.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (total * 3 // 4, hard))
