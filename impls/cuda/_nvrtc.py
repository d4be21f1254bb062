"""CUDA C++ from `kernels/` compiled at run time by NVRTC, with a cache on disk; needs neither nvcc nor a GPU."""

import functools
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "kernels"
STANDARD = "c++17"
DIGEST_BYTES = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where cubins are kept: $SOFTBENCH_CACHE_DIR, else ~/.cache/softbench/cubin."""
    chosen = os.environ.get("SOFTBENCH_CACHE_DIR")
    return Path(chosen) if chosen else Path.home() / ".cache" / "softbench" / "cubin"


def cubin(source: str, macros: Mapping[str, str], arch: str) -> bytes:
    """The cubin of a file of `kernels/`, from the cache or compiled now.

    macros  names and values that are defined before the first line
    arch    "sm_90a" and the like
    Raises cuda.core's NVRTCError, with the compiler's log, for a source that does not compile.
    """
    path = cache_folder() / f"{_key(source, macros, arch)}.cubin"
    kept = _read(path)
    if kept is not None:
        return kept
    built = compile_source(source, macros, arch)
    _write(path, built)
    return built


def compile_source(source: str, macros: Mapping[str, str], arch: str) -> bytes:
    """As `cubin`, without the cache; 0.3-0.8 s for the kernels of one file."""
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        name=source,
        std=STANDARD,
        arch=arch,
        define_macro=list(macros.items()) or None,
        include_path=str(SOURCES),
        device_as_default_execution_space=True,  # NVRTC 13.0 takes a lambda in a kernel for the host's without it
    )
    return bytes(Program((SOURCES / source).read_text(encoding="utf-8"), "c++", options).compile("cubin").code)


def _key(source: str, macros: Mapping[str, str], arch: str) -> str:
    """A digest of everything that the cubin depends on. A source may include any file of the folder, so all count."""
    words = [source, arch, STANDARD, *map(str, _compiler_version()), *(f"{k}={v}" for k, v in sorted(macros.items()))]
    digest = hashlib.sha256("\0".join(words).encode())
    for path in sorted(SOURCES.glob("*.cu*")):
        digest.update(hashlib.sha256(path.name.encode()).digest() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def _compiler_version() -> tuple[int, int]:
    from cuda.bindings import nvrtc

    status, major, minor = nvrtc.nvrtcVersion()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC does not tell its version: {status.name}")
    return major, minor


def _read(path: Path) -> bytes | None:
    """The cubin in a cache file; None where there is none that matches the digest before it."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, kept = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    return kept if hashlib.sha256(kept).digest() == digest else None


def _write(path: Path, built: bytes):
    """Put a cubin into the cache in one step, so other processes see all of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".partial")
    except OSError:
        return  # without a folder to write to, the next process compiles again, for half a second
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(built).digest() + built)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
