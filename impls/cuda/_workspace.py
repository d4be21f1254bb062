"""Words through which the blocks of a launch communicate: zero at first, then the values of the last launch.

They serve one launch at a time. Launches on one stream run one after the other and share them. So do launches that are
captured on one stream into one graph, but not launches outside the graph, which may run while it does.
"""

import threading
from typing import Any

# Streams and captures that get words from the reserve; a later capture must zero its own, 2.5 us per launch. A contest has up
# to 40 placements, each on one of torch's 32 streams and with a capture, and captures a few of them again.
SHARES = 96
ALIGN_WORDS = 32


class Words:
    """`count` words of 64 bits for every stream and every capture, on the device, which is torch's current one."""

    def __init__(self, count: int, device):
        import torch

        self._count, self._device = count, device
        # Zeroed now and never freed: a graph may be replayed as long as the process lives.
        shape = (SHARES, -(-count // ALIGN_WORDS) * ALIGN_WORDS)
        self._reserve = torch.zeros(shape, dtype=torch.int64, device=device)
        torch.cuda.current_stream().synchronize()
        self._used = 0
        self._owned: dict[tuple[int, int], Any] = {}
        self._lock = threading.Lock()

    def of(self, stream: int):
        """The int64 tensor for a launch on this stream, which is torch's current one."""
        import torch

        capturing = bool(torch._C._cuda_isCurrentStreamCapturing())
        key = (_capture(stream) if capturing else -1, stream)
        words = self._owned.get(key)
        return self._allot(key, capturing) if words is None else words

    def _allot(self, key: tuple[int, int], capturing: bool):
        import torch

        with self._lock:
            if key not in self._owned:
                if self._used == len(self._reserve):
                    fresh = torch.zeros(self._count, dtype=torch.int64, device=self._device)
                    if capturing:  # memory of the graph, which zeroes it on every replay: of this launch alone
                        return fresh
                    self._owned[key] = fresh
                else:
                    self._owned[key] = self._reserve[self._used]
                    self._used += 1
            return self._owned[key]


def _capture(stream: int) -> int:
    """The number of the capture that a stream is in; no two captures of a process have the same."""
    from cuda.bindings import driver

    status, _, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    if status:
        raise RuntimeError(f"the CUDA driver does not tell which capture a stream is in: {status.name}")
    return int(number)
