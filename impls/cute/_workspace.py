"""Zero-initialised memory through which the CTAs of a launch speak with one another.

A workspace serves one launch at a time and keeps what a launch leaves in it for the next one. So who shares it decides:

- Launches on one stream run one after the other and share one.
- Launches captured on one stream of one capture are ordered in its graph, and a graph runs once at a time: they share
  one too, but not with anybody outside, who may run while the graph does. It comes out of a reserve that was allocated
  and zeroed outside of any capture, and is never given back: a graph may be replayed as long as the process lives.

A capture that allocated its own would zero it in the graph: 2.5 us more for every launch in it.
"""

from __future__ import annotations

import threading
from typing import Any

from . import _capture

RESERVE_WORDS = 2**18  # 2 MiB a device, and again where they are used up: 57 captures at 132 CTAs and sixteen slots
ALIGN_WORDS = 32

_of_streams: dict[tuple[int, int, int], Any] = {}
_of_captures: dict[tuple[int, int, int, int], Any] = {}
_reserves: dict[int, tuple[Any, int]] = {}
_lock = threading.Lock()


def workspace(device: Any, words: int) -> Any:
    """(words,) int64 on a CUDA device, with an index, for one launch on torch's current stream."""
    import torch

    stream = torch._C._cuda_getCurrentRawStream(device.index)
    if _capture.capturing(device):
        return _captured(device, words, stream)
    found = _of_streams.get((device.index, stream, words))
    return _of_stream(device, words, stream) if found is None else found


def reserve(device: Any) -> None:
    """Allocate what captures draw from, if it is not there. Returns when it is zeroed."""
    with _lock:
        if device.index not in _reserves:
            _reserves[device.index] = (_zeroed(device, RESERVE_WORDS), 0)


def _of_stream(device: Any, words: int, stream: int) -> Any:
    import torch

    with _lock:
        key = (device.index, stream, words)
        if key not in _of_streams:
            _of_streams[key] = torch.zeros(words, dtype=torch.int64, device=device)
        return _of_streams[key]


def _captured(device: Any, words: int, stream: int) -> Any:
    key = (device.index, _capture.number(stream), stream, words)
    with _lock:
        if key not in _of_captures:
            memory, used = _reserves.get(device.index, (None, 0))
            if memory is None or used + words > len(memory):
                memory, used = _zeroed(device, max(words, RESERVE_WORDS)), 0
            _of_captures[key] = memory[used : used + words]
            _reserves[device.index] = (memory, used + -(-words // ALIGN_WORDS) * ALIGN_WORDS)
        return _of_captures[key]


def _zeroed(device: Any, words: int) -> Any:
    """(words,) int64, zero by now, in nobody's graph."""
    import torch

    with _capture.outside(device):
        memory = torch.zeros(words, dtype=torch.int64, device=device)
        torch.cuda.current_stream(device).synchronize()
    return memory
