"""An author's memory: torch allocates from a range of addresses that a referee can have as well.

torch's caching allocator works as ever, in pools of its own; only the memory beneath it comes from here. Memory for launches that
are captured and never run is one small piece, mapped again and again: it costs nothing.
"""

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from softbench.measure.sealed import driver
from softbench.measure.sealed.addresses import BASES, PIECE, SPAN, rounded

_SHOWN_AGAIN = 32 * PIECE

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class NoAddresses(RuntimeError):
    """None of the ranges can be had in this process."""


def reserve() -> int:
    """Reserve the first range of `BASES` that can be had, before there is a context. Raises NoAddresses."""
    for base in BASES:
        with suppress(driver.DriverError):
            if driver.reserve(base, SPAN):
                return base
    raise NoAddresses("no range of addresses could be reserved")


class Arena:
    """Pools of torch in the range; `pieces` are the ranges that are mapped, address -> bytes."""

    def __init__(self) -> None:
        import torch

        self.base = reserve()
        self.pieces: dict[int, int] = {}
        self.next = self.base + PIECE
        self._is_shown = False
        self._torch = torch
        self._calls = (_ALLOCATE(self._allocate), _FREE(self._free))  # kept alive as long as torch may call them
        at = [ctypes.cast(call, ctypes.c_void_p).value for call in self._calls]
        self._allocator = torch._C._cuda_customAllocator(*at)

    def pool(self) -> Any:
        """A new pool, whose memory is given back when it is deleted."""
        return self._torch.cuda.MemPool(self._allocator)

    @contextmanager
    def using(self, pool: Any, *, is_shown: bool = False) -> Iterator[None]:
        """Let all threads allocate from a pool, and this one run gradients itself.

        is_shown  no memory of its own, for launches that never run
        """
        native, device = self._torch._C, self._torch.cuda.current_device()
        native._cuda_beginAllocateToPool(device, pool.id)  # `torch.cuda.use_mem_pool` is for this thread only
        self._is_shown = is_shown
        try:
            with self._torch.autograd.set_multithreading_enabled(False):
                yield
        finally:
            native._cuda_endAllocateToPool(device, pool.id)
            native._cuda_releasePool(device, pool.id)
            self._is_shown = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Have torch remember what is allocated in the block, for `allocated`."""
        record = self._torch.cuda.memory._record_memory_history
        record("all", context=None)
        try:
            yield
        finally:
            record(None)

    def allocated(self) -> list[tuple[int, int]]:
        """What was allocated since `recording` began, also what is free again: addresses, and the bytes that were asked for."""
        traces = self._torch.cuda.memory._snapshot()["device_traces"]
        return [(entry["addr"], entry["size"]) for trace in traces for entry in trace if entry["action"] == "alloc"]

    def blocks(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The pieces, and the blocks in use in them, each an address and bytes."""
        used = []
        for segment in self._torch.cuda.memory_snapshot():
            at = segment["address"]
            if at not in self.pieces:
                continue
            for block in segment["blocks"]:
                if block["state"].startswith("active"):
                    used.append((at, block["size"]))
                at += block["size"]
        return sorted(self.pieces.items()), used

    def holds(self, address: int) -> bool:
        return any(first <= address < first + size for first, size in self.pieces.items())

    def restart(self) -> None:
        """Give out addresses from the start again, if nothing is held."""
        if not self.pieces:
            self.next = self.base + PIECE

    def _allocate(self, size: int, device: int, stream: int) -> int | None:
        """Called by torch, which takes no address for want of memory."""
        address, whole = self.next, rounded(size)
        if address + whole + PIECE > self.base + SPAN:
            return None
        self.next = address + whole + PIECE  # also if it fails: an address is never given out twice
        step = math.gcd(whole, _SHOWN_AGAIN) if self._is_shown else whole  # the driver maps no part of a handle
        try:
            handle = driver.new_memory(step)
            try:
                for at in range(0, whole, step):
                    driver.map_memory(address + at, step, handle)
            finally:
                driver.free_memory(handle)
        except driver.DriverError:
            return None
        self.pieces[address] = whole
        return address

    def _free(self, address: int, size: int, device: int, stream: int) -> None:
        if address in self.pieces:
            whole = self.pieces.pop(address)
            with suppress(driver.DriverError):
                self._torch.cuda.synchronize()
                driver.unmap(address, whole)
