"""Kernels of a cubin, loaded through the CUDA driver and launched with arguments packed beforehand."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any


@functools.cache
def functions(cubin: bytes, names: tuple[str, ...], device: int) -> tuple[Any, ...]:
    """The named kernels of a cubin, ready on the device, which must be current; once a process.

    Functions are asked for now, not at their first launch: with lazy loading that would be inside a graph's capture.
    """
    from cuda.bindings import driver

    library = check(driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
    kernels = [check(driver.cuLibraryGetKernel(library, name.encode())) for name in names]
    return tuple(check(driver.cuKernelGetFunction(kernel)) for kernel in kernels)


def check(answer: tuple[Any, ...]) -> Any:
    """The value in a driver call's answer; RuntimeError, with the error's name, where the call failed."""
    status, *values = answer
    if status:
        raise RuntimeError(f"the CUDA driver says {status.name}")
    return values[0] if values else None


def launcher(size: int) -> Callable[..., None]:
    """A function that launches kernels which all take one structure of `size` bytes by value.

    It is called as ``enqueue(stream, pack, values, launches)``: `pack` is `struct.Struct.pack_into`, `values` are what
    it packs, `launches` the (function, blocks, threads) in order, `stream` the address of a stream. The driver copies
    the structure during the call, so one buffer serves all; the lock keeps a second thread out of it meanwhile.
    """
    from cuda.bindings import driver

    buffer = ctypes.create_string_buffer(size)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))
    address = ctypes.addressof(pointers)
    launch_kernel = driver.cuLaunchKernel
    lock = threading.Lock()

    def enqueue(stream: int, pack: Any, values: tuple[int, ...], launches: tuple[tuple[Any, int, int], ...]) -> None:
        with lock:
            pack(buffer, 0, *values)
            for function, blocks, threads in launches:
                (status,) = launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, address, 0)
                if status:
                    check((status,))

    # The driver reads through an address, which does not keep the array alive.
    enqueue.pointers = pointers  # type: ignore[attr-defined]
    return enqueue
