"""Which machine code each kernel of a process came from, by CUPTI's callbacks when code is loaded.

Two modules may hold kernels of one name, so a kernel is known by the handle of its module or library: what is loaded between the
start and the end of a call that returns a handle belongs to that handle. Code that the driver loads later, when a kernel is first
used, has no such call; it is found by the kernel's name, and only if one image has it.
"""

import ctypes
import glob
import hashlib
import struct
import sys
import threading
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from softbench.measure.sealed.driver import driver

_DRIVER_CALLS, _RESOURCES, _MODULE_LOADED = 1, 3, 6
_LOADERS = {
    "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
}  # fmt: skip
"""Functions whose first parameter is where they put the handle."""
_MOST_CALLS = 2000
_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_uint32, c_void_p)


class NoImages(RuntimeError):
    """CUPTI cannot say what is loaded; the message says why."""


class _Resource(ctypes.Structure):
    _fields_ = (("context", c_void_p), ("handle", c_void_p), ("descriptor", c_void_p))


class _Module(ctypes.Structure):
    _fields_ = (("id", c_uint32), ("size", c_size_t), ("image", c_void_p))


class _Call(ctypes.Structure):
    _fields_ = (
        ("site", c_int), ("function", c_char_p), ("params", c_void_p), ("returned", c_void_p), ("symbol", c_char_p),
        ("context", c_void_p), ("context_id", c_uint32), ("correlation", c_void_p), ("correlation_id", c_uint32),
    )  # fmt: skip


class Images:
    """Copies of all code that is loaded while CUPTI is attached. Detach it before anything is timed: it slows launches."""

    def __init__(self) -> None:
        self.images: dict[str, bytes] = {}
        """Digest -> machine code."""
        self._modules: dict[int, str] = {}
        self._libraries: dict[int, str] = {}
        self._free: list[str] = []
        self._open = threading.local()
        self._lock = threading.Lock()
        self._library = ctypes.CDLL(_cupti())
        self._callback = _CALLBACK(self._called)  # kept alive as long as CUPTI may call it
        self._subscriber = c_void_p()
        self._is_attached = False

    def attach(self) -> None:
        """Watch from now on. Raises NoImages, for example if a profiler watches already."""
        if self._is_attached:
            return
        self._ok("cuptiSubscribe", byref(self._subscriber), self._callback, None)
        self._enable(_RESOURCES, _MODULE_LOADED)
        for number in self._numbers():
            self._enable(_DRIVER_CALLS, number)
        self._is_attached = True

    def detach(self) -> None:
        """Let CUPTI go; what it saw stays."""
        if self._is_attached:
            self._is_attached = False
            self._ok("cuptiUnsubscribe", self._subscriber)
            self._ok("cuptiFinalize")

    def of_kernel(self, function: int | None, kernel: int | None, name: bytes) -> str:
        """The digest of the image that holds a kernel. Raises LookupError, with the reason, if that is not known."""
        if known := self._by_handle(function, kernel):
            return known
        section = b".text." + name + b"\0"
        found = {digest for digest in self._free if section in self.images[digest]}
        if len(found) == 1:
            return found.pop()
        shown, advice = name.decode(errors="replace")[:100], "; give each a name of its own" if found else ""
        raise LookupError(f"{len(found) or 'no'} loaded modules hold a kernel {shown!r}{advice}")

    def _by_handle(self, function: int | None, kernel: int | None) -> str:
        """The digest of the image that was loaded as a kernel's library or module; "" if neither is known."""
        found, get = c_void_p(), driver().status
        if kernel and get("cuKernelGetLibrary")(byref(found), c_void_p(kernel)):
            found.value = 0
        if found.value and (known := self._libraries.get(found.value)):
            return known
        if not function or get("cuFuncGetModule")(byref(found), c_void_p(function)):
            return ""
        for library, digest in self._libraries.items():
            module = c_void_p()
            if get("cuLibraryGetModule")(byref(module), c_void_p(library)) == 0 and module.value == found.value:
                return digest
        return self._modules.get(found.value or 0, "")

    def _called(self, user: int, domain: int, number: int, data: int) -> None:
        try:
            if domain == _RESOURCES:
                self._loaded(_Module.from_address(_Resource.from_address(data).descriptor))
            else:
                self._passed(_Call.from_address(data))
        except Exception:  # an exception would end in the driver; the kernel is then of an unknown module
            return

    def _loaded(self, module: Any) -> None:
        digest = self._keep(ctypes.string_at(module.image, module.size))
        with self._lock:
            window = getattr(self._open, "window", None)
            (self._free if window is None else window).append(digest)

    def _keep(self, image: bytes) -> str:
        digest = hashlib.sha256(image).hexdigest()
        self.images[digest] = image
        return digest

    def _passed(self, call: Any) -> None:
        """Note the start or the end of a function that loads code."""
        if call.site == 0:
            self._open.window = []
            return
        window, self._open.window = getattr(self._open, "window", None) or [], None
        place, code = ctypes.cast(call.params, ctypes.POINTER(c_void_p))[:2]
        handle = c_uint64.from_address(place).value if place else 0
        if not window and b"Data" in call.function and (image := _whole(code)):
            window = [self._keep(image)]  # the driver will load it when a kernel is first used
        handles = self._libraries if call.function.startswith(b"cuLibrary") else self._modules
        with self._lock:
            handles.pop(handle, None)
            if handle and len(set(window)) == 1:
                handles[handle] = window[0]
            else:
                self._free += window

    def _numbers(self) -> list[int]:
        """The numbers of `_LOADERS` among the callbacks of the driver's functions, whatever their version."""
        found, get = [], self._library.cuptiGetCallbackName
        for number in range(1, _MOST_CALLS):
            name = c_char_p()
            if get(c_int(_DRIVER_CALLS), c_uint32(number), byref(name)) or not name.value:
                continue
            if name.value.decode().split("_")[0] in _LOADERS:
                found.append(number)
        return found

    def _enable(self, domain: int, number: int) -> None:
        self._ok("cuptiEnableCallback", c_uint32(1), self._subscriber, c_int(domain), c_uint32(number))

    def _ok(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        if code := function(*arguments):
            text = c_char_p()
            self._library.cuptiGetResultString(c_int(code), byref(text))
            raise NoImages(f"{name}: {text.value.decode() if text.value else code}")


def _whole(address: int | None) -> bytes:
    """All bytes of an ELF file in memory, whose length its headers tell; b"" for anything else."""
    if not address or ctypes.string_at(address, 4) != b"\x7fELF":
        return b""
    header = ctypes.string_at(address, 64)
    programs, sections = struct.unpack_from("<QQ", header, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<HHHH", header, 54)
    end = max(programs + program_size * program_count, sections + section_size * section_count)
    return ctypes.string_at(address, end)


def _cupti() -> str:
    """The library that torch has loaded, or that came with it. Raises NoImages."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libcupti.so" in line:
            return line.split(maxsplit=5)[-1].strip()
    for folder in sys.path:
        for place in ("nvidia/*/lib/libcupti.so*", "torch/lib/libcupti*.so*"):
            if found := sorted(glob.glob(f"{folder}/{place}")):
                return found[0]
    raise NoImages("CUPTI is not installed")
