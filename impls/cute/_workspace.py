"""Zero-initialised memory through which the CTAs of a launch communicate, and the capture of a CUDA graph that they may be in.

A workspace serves one launch at a time and keeps its contents for the next one, so two launches share one only if they
never run at the same time:

- Launches on one stream run one after the other and share one.
- Launches captured on one stream of one capture are ordered in its graph, and a graph runs once at a time: they share
  one, but with no launch outside the graph, which may run while the graph does. It comes from a reserve that was zeroed
  outside of any capture (in the graph that would take 2.5 us per launch), and is never freed, as graphs may be replayed.
"""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

RESERVE_WORDS = 2**18  # 2 MiB per device, and again when they are used up: 57 captures at 132 CTAs and sixteen slots
ALIGN_WORDS = 32

_of_streams: dict[tuple[Any, ...], Any] = {}
_of_captures: dict[tuple[Any, ...], Any] = {}
_reserves: dict[int, tuple[Any, int]] = {}
_lock = threading.Lock()


def workspace(device, words: int, layout: tuple[int, ...] = ()):
    """(words,) int64 on a CUDA device, with an index, for one launch on torch's current stream.

    layout  of the words: a launch would take what another layout left there for its own
    """
    import torch

    stream, is_captured = torch._C._cuda_getCurrentRawStream(device.index), capturing(device)
    found = _of_captures if is_captured else _of_streams
    key = (device.index, is_captured and capture_id(stream), stream, words, layout)
    if key not in found:
        with _lock:
            if key not in found:
                found[key] = (_reserved if is_captured else _zeroed)(device, words)
    return found[key]


def reserve(device):
    """Allocate the memory for captures, unless it is there. Returns when it is zeroed."""
    with _lock:
        if device.index not in _reserves:
            _reserves[device.index] = (_zeroed(device, RESERVE_WORDS), 0)


def _reserved(device, words: int):
    memory, used = _reserves.get(device.index, (None, 0))
    if memory is None or used + words > len(memory):
        memory, used = _zeroed(device, max(words, RESERVE_WORDS)), 0
    _reserves[device.index] = (memory, used + -(-words // ALIGN_WORDS) * ALIGN_WORDS)
    return memory[used : used + words]


def _zeroed(device, words: int):
    """(words,) int64, zero on return, in no graph and in no pool of the caller, such as that of torch.compile's graphs.

    A thread of its own allocates: captures, pools and modes of torch are of threads.
    """
    import torch

    def allocate():
        with outside(device, is_captured=True):
            memory = torch.zeros(words, dtype=torch.int64, device=device)
            torch.cuda.current_stream(device).synchronize()
        return memory

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(allocate).result()


def capturing(device) -> bool:
    """Whether the device's current stream is being captured; torch answers for the current device only."""
    import torch

    if torch._C._cuda_getDevice() == device.index:
        return bool(torch._C._cuda_isCurrentStreamCapturing())
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def capture_id(stream: int) -> int:
    """The number of the capture that a stream is in; no two captures of a process share one."""
    from cuda.bindings import driver

    status, _, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    if status:
        raise RuntimeError(f"the CUDA driver does not tell which capture a stream is in: {status.name}")
    return int(number)


@contextlib.contextmanager
def outside(device, is_captured: bool = False) -> Iterator[None]:
    """Work on the device that a capture, of this thread or with is_captured of any, neither records nor refuses."""
    import torch

    with torch.cuda.device(device):
        if not (is_captured or torch.cuda.is_current_stream_capturing()):
            yield
            return
        from cuda.bindings import driver

        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _, before = driver.cuThreadExchangeStreamCaptureMode(relaxed)
        try:
            streams = (torch.cuda.Stream(device) for _ in range(64))  # torch's 32, in turn, with that of the capture
            with torch.cuda.stream(next(s for s in streams if not driver.cuStreamIsCapturing(s.cuda_stream)[1].value)):
                yield
        finally:
            driver.cuThreadExchangeStreamCaptureMode(before)
