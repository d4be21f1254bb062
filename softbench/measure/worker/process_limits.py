"""What a worker's process may take of its machine."""

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
    """On a machine without a GPU an allocation without end meets a MemoryError before it meets the machine's end.

    With CUDA this is no limit to set: the driver reserves address space far beyond the memory there is.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (total * 3 // 4, hard))
