"""The resources of a compiled kernel, read from its cubin with `cuobjdump`; needs neither a GPU nor a CUDA toolkit."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from softbench.model import KernelResources

TIMEOUT_S = 60
FUNCTION = re.compile(r"Function (?P<name>\S+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+)")


class ToolMissing(RuntimeError):
    """No `cuobjdump` on this machine; the message says where it was searched for."""


def _candidates() -> Iterator[Path]:
    """Places of cuobjdump, best first. Triton's wheel carries one; triton itself is not imported."""
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(folder, "backends", "nvidia", "bin", "cuobjdump")
    on_path = shutil.which("cuobjdump")
    if on_path:
        yield Path(on_path)
    if os.environ.get("CUDA_HOME"):
        yield Path(os.environ["CUDA_HOME"], "bin", "cuobjdump")


@functools.lru_cache(maxsize=1)
def cuobjdump() -> Path:
    """Path of an executable cuobjdump. Raises ToolMissing where there is none."""
    for path in _candidates():
        if os.access(path, os.X_OK):
            return path
    raise ToolMissing("no cuobjdump in the triton package, on PATH or in $CUDA_HOME/bin: install triton")


def resources(cubin: bytes, kernel: str | None = None) -> tuple[KernelResources, ...]:
    """Registers and stack bytes per thread, and static shared bytes, of each kernel in a cubin, in the cubin's order.

    kernel  only the kernel of this (mangled) name
    Raises ToolMissing without cuobjdump, and ValueError for bytes that it cannot read or a kernel that does not exist.
    """
    with tempfile.TemporaryDirectory(prefix="softbench-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [str(cuobjdump()), "-res-usage", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    found = tuple(
        KernelResources(match["name"], int(match["registers"]), int(match["stack"]), int(match["shared"]))
        for match in FUNCTION.finditer(done.stdout)
    )
    if not found:
        output = " ".join((done.stderr or done.stdout).split()) or "nothing"
        raise ValueError(f"cuobjdump finds no kernel in {len(cubin)} bytes; it says: {output}")
    if kernel is None:
        return found
    named = tuple(entry for entry in found if entry.name == kernel)
    if not named:
        raise ValueError(f"no kernel {kernel!r} in the cubin; it holds {', '.join(entry.name for entry in found)}")
    return named
