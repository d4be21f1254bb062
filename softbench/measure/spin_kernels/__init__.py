"""Kernels that spin on the GPU's own timer for a known duration: to check clocks, and to mark calls in a profile.

The timer, %globaltimer, counts ns in steps of 32 ns to 1 us, depending on GPU and driver; a kernel counts from one step to
another. Its work before the first step and around the spinning takes at most a step and a launch, for any duration, so that two
durations tell a clock's rate from a constant.
"""

import statistics

from softbench.model import Tensor

MARK = "softbench_mark"
"""The name of the kernel that `mark` launches, as profilers give it."""


def mark(ns: int) -> None:
    """Enqueue on the current stream a kernel of one warp that spins for ns. Raises ImportError where triton is missing."""
    from softbench.measure.spin_kernels import _kernels

    _kernels.softbench_mark[(1,)](ns, num_warps=1)


class Spin:
    """A launch function: one warp spins for ns, and writes how long it spun."""

    def __init__(self, ns: int) -> None:
        from softbench.measure.spin_kernels import _kernels

        self._kernel, self._ns = _kernels.softbench_spin, ns
        self._outputs: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> Tensor:
        """launch(...) -> (1,) int64, ns by the GPU's timer. Inputs are not read."""
        import torch

        found = torch.empty(1, dtype=torch.int64, device="cuda")
        self._kernel[(1,)](found, self._ns, num_warps=1)
        self._outputs.append(found)
        return found

    def spun_ns(self) -> int:
        """How long the launches spun by the GPU's timer, the median of all; waits for them."""
        return round(statistics.median(int(found.item()) for found in self._outputs))
