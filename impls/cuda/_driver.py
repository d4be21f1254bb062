"""Kernels of a cubin, loaded through the CUDA driver and launched with arguments packed beforehand."""

import ctypes
import functools
import threading
from typing import Any


@functools.cache
def functions(cubin: bytes, names: tuple[str, ...], device: int) -> tuple[Any, ...]:
    """The named kernels of a cubin, ready on the device, which must be current; once a process.

    This loads the functions now; lazy loading would do it at their first launch, possibly inside a graph's capture.
    """
    from cuda.bindings import driver

    library = check(driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
    kernels = [check(driver.cuLibraryGetKernel(library, name.encode())) for name in names]
    return tuple(check(driver.cuKernelGetFunction(kernel)) for kernel in kernels)


def residents(function, threads: int, shared_bytes: int) -> int:
    """Blocks of a kernel that a multiprocessor holds at a time; allows the kernel that much dynamic shared memory.

    Raises RuntimeError where the GPU does not offer so much to a block.
    """
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    check(driver.cuFuncSetAttribute(function, attribute, shared_bytes))
    return int(check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared_bytes)))


def check(answer: tuple[Any, ...]):
    """The value in a driver call's answer; RuntimeError, with the error's name, where the call failed."""
    status, *values = answer
    if status:
        raise RuntimeError(f"the CUDA driver says {status.name}")
    return values[0] if values else None


class Launcher:
    """Launches kernels whose first parameter is one structure of `size` bytes by value, packed again for every call.

    The driver copies parameters during a launch, so one buffer serves all; the lock keeps a second thread out of it.
    """

    def __init__(self, size: int):
        from cuda.bindings import driver

        self._launch, self._launch_special = driver.cuLaunchKernel, driver.cuLaunchKernelEx
        self._buffer = ctypes.create_string_buffer(size)
        self._lock = threading.Lock()
        # The driver reads through addresses, which keep no object alive.
        self._alive: list[Any] = []

    def parameters(self, *more: bytes) -> int:
        """The address of a parameter list: the structure, then parameters that stay constant."""
        constants = [ctypes.create_string_buffer(value, len(value)) for value in more]
        pointers = (ctypes.c_void_p * (1 + len(more)))(*map(ctypes.addressof, (self._buffer, *constants)))
        self._alive += [pointers, *constants]
        return ctypes.addressof(pointers)

    def plain(self, function, blocks: int, threads: int, parameters: int) -> tuple[Any, ...]:
        """An ordinary launch, for `__call__`."""
        return (None, function, blocks, threads, parameters)

    def special(
        self, function, blocks: int, threads: int, parameters: int, shared_bytes: int, cooperative: bool
    ) -> tuple[Any, ...]:
        """A launch that may begin while the one before it ends, for kernels that wait for that themselves.

        cooperative  also asks that all blocks be on the GPU at once, and is refused where they do not fit
        """
        from cuda.bindings import driver

        overlap = driver.CUlaunchAttribute()
        overlap.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        overlap.value.programmaticStreamSerializationAllowed = 1
        together = driver.CUlaunchAttribute()
        together.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        together.value.cooperative = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = shared_bytes
        config.attrs = [overlap, together] if cooperative else [overlap]
        config.numAttrs = len(config.attrs)
        return (config, function, blocks, threads, parameters)

    def __call__(self, stream: int, pack, values: tuple[int, ...], launches: tuple[tuple[Any, ...], ...]):
        """Enqueue launches in order on the stream of this address.

        pack    `struct.Struct.pack_into` of the structure, values what it packs
        """
        with self._lock:
            pack(self._buffer, 0, *values)
            for config, function, blocks, threads, parameters in launches:
                if config is None:
                    (status,) = self._launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, 0)
                else:
                    config.hStream = stream
                    (status,) = self._launch_special(config, function, parameters, 0)
                if status:
                    check((status,))
