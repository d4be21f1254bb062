"""What a worker's process may use of its machine."""

import resource
from contextlib import suppress
from pathlib import Path

from softbench.measure import device


def set_always() -> None:
    """The first to go when the host runs out of memory; its guard has forbidden core files."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def bound_memory() -> None:
    """Without a GPU, make an endless allocation fail with MemoryError before it exhausts the machine.

    With CUDA this cannot be limited: the driver reserves far more address space than there is memory.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (device.host_memory() * 3 // 4, hard))
