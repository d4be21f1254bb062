"""CUDA C++ kernels of impls/cuda on a CPU: g++ compiles them with other intrinsics, ctypes launches them.

It holds them to their indexing, barriers, exchanges and numerics; not to what is a GPU's own: speed, memory order.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent


class Kernels:
    """The kernels of one source for some macros (INPUT and the like), compiled into a folder."""

    def __init__(self, kernels, source, macros, folder):
        if not shutil.which("g++"):
            pytest.skip("g++ compiles the kernels for the CPU")
        for path in kernels.glob("*.cu*"):
            shutil.copy(path, folder)
        for path in FOLDER.glob("*.*"):
            shutil.copy(path, folder)  # its ptx.cuh and mma.cuh take the place of the kernels' own
        compiled = folder / "kernels.so"
        defines = [*(f"-D{name}={value}" for name, value in macros.items()), f'-DKERNELS="{source}"']
        flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-Wno-unknown-pragmas", "-ffp-contract=fast"]
        command = ["g++", *flags, *defines, str(folder / "launch.cpp"), "-o", str(compiled)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        self.compiled = ctypes.CDLL(str(compiled))
        self.compiled.launch.restype = ctypes.c_char_p

    def launch(self, kernel, arguments, level, blocks, threads, shared_bytes, together):
        """Run a kernel; RuntimeError where a GPU would hang or fault."""
        address = ctypes.cast(getattr(self.compiled, kernel), ctypes.c_void_p)
        counts = (ctypes.c_uint(blocks), ctypes.c_uint(threads), ctypes.c_size_t(shared_bytes), ctypes.c_int(together))
        error = self.compiled.launch(address, arguments, level or None, *counts)
        if error:
            raise RuntimeError(error.decode())


class Launcher:
    """As `_driver.Launcher`, with (Kernels, name) for functions."""

    def __init__(self, size):
        self.buffer = ctypes.create_string_buffer(size)
        self.launched = []

    def parameters(self, *more):
        return b"".join(more)

    def plain(self, function, blocks, threads, parameters):
        return (function, blocks, threads, parameters, 0, False)

    def special(self, *launch):
        return launch

    def __call__(self, stream, pack, values, launches):
        del stream
        pack(self.buffer, 0, *values)
        for (kernels, name), blocks, threads, level, shared_bytes, together in launches:
            kernels.launch(name, self.buffer, level, blocks, threads, shared_bytes, together)
