"""The CUDA driver, by ctypes: what torch offers no names for. Every structure is as cuda.h of CUDA 12.3 and later has it."""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any

KERNEL, COPY, FILL, EMPTY = 0, 1, 2, 5
"""Types of graph nodes that can be rebuilt."""
ATTRIBUTE_BYTES = 64
_DEVICE_MEMORY = {2, 4}
"""The kinds of memory that a copy between addresses of the device names: a device's, and unified."""


class DriverError(RuntimeError):
    """A call of the driver that failed; the message has its name and the error's, as CUDA_ERROR_OUT_OF_MEMORY."""


class KernelParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = (
        ("func", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint),
        ("params", c_void_p), ("extra", c_void_p), ("kern", c_void_p), ("ctx", c_void_p),
    )  # fmt: skip


class KernelNodeParams(ctypes.Structure):
    """CUgraphNodeParams of a kernel: 256 bytes, of which CUDA_KERNEL_NODE_PARAMS_v3 takes the first."""

    _fields_ = (("kind", c_int), ("reserved", c_int * 3), ("kernel", KernelParams), ("rest", c_uint64 * 21))


class FillParams(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS"""

    _fields_ = (
        ("address", c_uint64), ("pitch", c_size_t), ("value", c_uint), ("element", c_uint), ("width", c_size_t),
        ("height", c_size_t),
    )  # fmt: skip


class _Side(ctypes.Structure):
    _fields_ = (
        ("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("level", c_size_t), ("kind", c_int), ("host", c_void_p),
        ("address", c_uint64), ("array", c_void_p), ("reserved", c_void_p), ("pitch", c_size_t), ("height", c_size_t),
    )  # fmt: skip


class CopyParams(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = (
        ("source", _Side), ("target", _Side), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t),
    )  # fmt: skip

    @property
    def is_on_device(self) -> bool:
        return {self.source.kind, self.target.kind} <= _DEVICE_MEMORY


class _Location(ctypes.Structure):
    _fields_ = (("kind", c_int), ("number", c_int))


class _AllocationProperties(ctypes.Structure):
    _fields_ = (("kind", c_int), ("handles", c_int), ("location", _Location), ("win32", c_void_p), ("flags", c_ubyte * 8))


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", c_int))


_DEVICE, _PINNED, _READ_WRITE = 1, 1, 3


class Driver:
    """`driver().cuInit(0)` calls a function of the driver. Raises DriverError if it fails."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.cuInit(0)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        call = self.status(name)

        def checked(*arguments: Any) -> None:
            if code := call(*arguments):
                raise DriverError(f"{name}: {self._name_of(code)}")

        setattr(self, name, checked)
        return checked

    def status(self, name: str) -> Callable[..., int]:
        """A function of the driver that returns its error code: for questions that may have no answer."""
        found: Callable[..., int] = getattr(self._library, name)
        return found

    def _name_of(self, code: int) -> str:
        text = c_char_p()
        self._library.cuGetErrorName(c_int(code), byref(text))
        return text.value.decode() if text.value else f"error {code}"


@cache
def driver() -> Driver:
    """The driver, initialized. Raises OSError where there is none."""
    return Driver()


def reserve(address: int, size: int) -> bool:
    """Reserve a range of addresses; whether it could be had at this very address."""
    got = c_uint64()
    driver().cuMemAddressReserve(byref(got), c_size_t(size), c_size_t(0), c_uint64(address), c_uint64(0))
    if got.value == address:
        return True
    driver().cuMemAddressFree(got, c_size_t(size))
    return False


def new_memory(size: int) -> int:
    """Physical memory of the current device, as a handle; size is a multiple of 2 MiB."""
    device = c_int()
    driver().cuCtxGetDevice(byref(device))
    wanted = _AllocationProperties(_PINNED, 0, _Location(_DEVICE, device.value), None)
    handle = c_uint64()
    driver().cuMemCreate(byref(handle), c_size_t(size), byref(wanted), c_uint64(0))
    return handle.value


def free_memory(handle: int) -> None:
    """Give up a handle; what is mapped stays."""
    driver().cuMemRelease(c_uint64(handle))


def map_memory(address: int, size: int, handle: int) -> None:
    """Let a reserved range show the first `size` bytes of physical memory, to be read and written."""
    device = c_int()
    driver().cuCtxGetDevice(byref(device))
    driver().cuMemMap(c_uint64(address), c_size_t(size), c_size_t(0), c_uint64(handle), c_uint64(0))
    access = _Access(_Location(_DEVICE, device.value), _READ_WRITE)
    driver().cuMemSetAccess(c_uint64(address), c_size_t(size), byref(access), c_size_t(1))


def unmap(address: int, size: int) -> None:
    driver().cuMemUnmap(c_uint64(address), c_size_t(size))


def is_device_address(word: int) -> bool:
    """Whether a number is an address that the driver knows."""
    kind = c_uint()
    return driver().status("cuPointerGetAttribute")(byref(kind), c_int(2), c_uint64(word)) == 0


def read_bytes(address: int, size: int) -> bytes:
    buffer = ctypes.create_string_buffer(size)
    driver().cuMemcpyDtoH_v2(buffer, c_uint64(address), c_size_t(size))
    return buffer.raw


def copy(target: int, source: int, size: int) -> None:
    """Copy memory of the device, on the stream that all work of a referee is on."""
    driver().cuMemcpyDtoDAsync_v2(c_uint64(target), c_uint64(source), c_size_t(size), c_void_p(0))


def fill(address: int, size: int, byte: int) -> None:
    """Set every byte, on the same stream."""
    driver().cuMemsetD8Async(c_uint64(address), c_ubyte(byte), c_size_t(size), c_void_p(0))
