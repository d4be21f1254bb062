"""The capture of a CUDA graph that torch's current stream may be in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def capturing(device: Any) -> bool:
    """Whether the device's current stream is under capture; torch asks of the current device only."""
    import torch

    if torch._C._cuda_getDevice() == device.index:
        return bool(torch._C._cuda_isCurrentStreamCapturing())
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def number(stream: int) -> int:
    """The number of the capture that a stream is in; no two captures of a process have the same."""
    from cuda.bindings import driver

    status, _, found, *_ = driver.cuStreamGetCaptureInfo(stream)
    if status:
        raise RuntimeError(f"the CUDA driver does not tell which capture a stream is in: {status.name}")
    return int(found)


@contextlib.contextmanager
def outside(device: Any) -> Iterator[None]:
    """Work on the device that a capture which this thread may be in neither records nor refuses."""
    import torch

    with torch.cuda.device(device):
        if not torch.cuda.is_current_stream_capturing():
            yield
            return
        from cuda.bindings import driver

        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _, before = driver.cuThreadExchangeStreamCaptureMode(relaxed)
        try:
            with torch.cuda.stream(torch.cuda.Stream(device)):
                yield
        finally:
            driver.cuThreadExchangeStreamCaptureMode(before)
