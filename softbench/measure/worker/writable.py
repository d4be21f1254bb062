"""Where an implementation's process may write: a temporary folder of its own, caches that last, a few devices."""

import fcntl
import getpass
import glob
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

CACHES = {
    "SOFTBENCH_CACHE_DIR": "{home}/.cache/softbench",
    "TRITON_CACHE_DIR": "{triton}/.triton",
    "TORCHINDUCTOR_CACHE_DIR": "{temporary}/torchinductor_{user}",
    "TORCH_EXTENSIONS_DIR": "{cache}/torch_extensions",
    "PYTORCH_KERNEL_CACHE_PATH": "{cache}/torch/kernels",
    "CUTE_DSL_CACHE_DIR": "{temporary}/{user}/cutlass_python_cache",
    "QUACK_CACHE_DIR": "{temporary}/{user}/quack_cache",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "{temporary}/{user}/flash_attention_cute_dsl_cache",
    "TVM_FFI_CACHE_DIR": "{cache}/tvm-ffi",
    "CUDA_CACHE_PATH": "{home}/.nv/ComputeCache",
}
"""Where compilers and libraries keep what they made, by the variable that names another folder."""
_INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "nvidia*", "nvidia-caps/*", "dri/*", "dxg")
_NAME = "softbench-workers-"


class Scratch:
    """The temporary folders of a forkserver's workers, in one folder, which the first of them makes. It is locked meanwhile."""

    def __init__(self) -> None:
        self._folder = ""
        self._lock: int | None = None

    def begin(self) -> None:
        """Have a folder, unless none can be made, as on a full disk. First remove what others left that were killed."""
        if self._folder:
            return
        remove_left()
        with suppress(OSError):
            made = tempfile.mkdtemp(prefix=f".{_NAME}")  # nobody removes it before it is locked
            self._lock = _locked(made)
            folder, name = os.path.split(made)
            self._folder = os.path.join(folder, name[1:])
            os.rename(made, self._folder)

    def of(self, pid: int) -> str:
        return f"{self._folder}/{pid}"

    def let_go(self) -> None:
        """In a fork: leave the lock to the forkserver alone."""
        if self._lock is not None:
            os.close(self._lock)

    def end(self, pid: int | None = None) -> None:
        """Remove that of a worker, or all."""
        if self._folder:
            _remove(self._folder if pid is None else self.of(pid))


def remove_left() -> None:
    """Remove the folders of forkservers that were killed: this user's, and not locked."""
    places = glob.glob(f"{glob.escape(tempfile.gettempdir())}/{_NAME}*")
    found = {place: lock for place in places if (lock := _locked(place)) is not None}
    if found:
        _remove(*found)
    for lock in found.values():
        os.close(lock)


def _locked(folder: str) -> int | None:
    """A lock on a folder of this user's; None if it cannot be had."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():
            return lock
    except OSError:  # another holds it, or this file system has no locks
        pass
    os.close(lock)
    return None


def _remove(*folders: str) -> None:
    """For at most two seconds: an implementation may have filled them."""
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["rm", "-rf", "--", *folders], timeout=2.0, check=False, stderr=subprocess.DEVNULL)


def make(temporary: str) -> dict[str, str]:
    """Make a worker's temporary folder; the variables that name it, and a cache that stays where it is without it."""
    names = _names()
    outside = f"{names['temporary']}/{names['user']}"
    try:
        os.mkdir(temporary, 0o700)
        os.makedirs(outside, exist_ok=True)
        os.symlink(outside, f"{temporary}/{names['user']}")  # for caches that no variable names
    except OSError:
        pass
    inductor = os.environ.get(_INDUCTOR) or CACHES[_INDUCTOR].format(**names)
    return {"TMPDIR": temporary, _INDUCTOR: inductor} if os.path.isdir(temporary) else {}


def folders(temporary: str) -> list[str]:
    """All folders below which a worker may write; caches that are missing are made, since a rule needs what is there."""
    names = _names()
    caches = [os.environ.get(variable) or place.format(**names) for variable, place in CACHES.items()]
    for folder in caches:
        with suppress(OSError):
            os.makedirs(folder, exist_ok=True)
    chosen = os.environ.get("SOFTBENCH_WRITABLE", "").split(os.pathsep)
    return [temporary, *caches, f"{names['home']}/.quack", "/dev/shm", "/dev/pts", "/proc/self", *filter(None, chosen)]


def devices() -> list[str]:
    return [path for name in _DEVICES for path in glob.glob(f"/dev/{name}") if not os.path.isdir(path)]


def _names() -> dict[str, str]:
    """What stands for what in the table of caches; to be asked before this process has a temporary folder of its own."""
    home = str(Path.home())
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user of a container without a name
        user = f"uid_{os.getuid()}"
    return {
        "home": home,
        "triton": os.environ.get("TRITON_HOME") or home,
        "cache": os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache",
        "temporary": tempfile.gettempdir(),
        "user": user,
    }
