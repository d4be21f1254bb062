"""Times work on the GPU between two events on the current stream."""

import ctypes
from collections.abc import Callable

from softbench.measure.sealed.driver import driver

_WAIT_EQUAL = 1
"""CU_STREAM_WAIT_VALUE_EQ of cuda.h"""


class Stopwatch:
    def __init__(self) -> None:
        import torch

        self._start, self._stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._wait, self._stream = torch.cuda.synchronize, torch.cuda.current_stream
        self._enqueued = torch.zeros(1, dtype=torch.int32, pin_memory=True)  # at one address for host and GPU

    def ns_of(self, work: Callable[[], object]) -> int:
        """Nanoseconds of what is enqueued, once the GPU has done it."""
        return self._ns(work, lambda: None)

    def ns_behind_a_gate(self, work: Callable[[], object]) -> int:
        """`ns_of` without the host's time: the GPU begins once all is enqueued. The work must not wait for the GPU.

        A graph of 500 launches took a virtual machine's host 0.2 ms to enqueue.
        """
        self._enqueued[0] = 0
        stream, address = ctypes.c_void_p(self._stream().cuda_stream), ctypes.c_uint64(self._enqueued.data_ptr())
        driver().cuStreamWaitValue32_v2(stream, address, ctypes.c_uint32(1), _WAIT_EQUAL)
        return self._ns(work, lambda: self._enqueued.fill_(1))

    def _ns(self, work: Callable[[], object], behind: Callable[[], object]) -> int:
        try:
            self._start.record()
            work()
            self._stop.record()
        finally:
            behind()
        self._wait()
        ms: float = self._start.elapsed_time(self._stop)
        return round(ms * 1e6)
