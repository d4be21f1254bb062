"""A lock per device, by which runs take turns, case by case: two files per device, in a folder that all users share.

A run that wants the device locks the gate and keeps it until the device is free. So a run that ends a case finds the gate
locked by the run that waits, and cannot start its next case first. The kernel frees the locks of a process when it ends,
however it ends; the text in the files is for people only.
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from softbench.texts import printable

POLL_S = 0.1
_FOLDER = "/tmp/softbench-turns"
"""Not tempfile's: TMPDIR is often a user's own, so that users would lock different files."""


class _LockError(Exception):
    """The files cannot be locked."""


class DeviceLock:
    """The lock of one device; its id must be the same for every process on this machine."""

    def __init__(self, device: str, run_id: str) -> None:
        self._name = re.sub(r"[^\w.-]", "_", device)
        self._signature = f"run {run_id} (pid {os.getpid()})"

    @contextlib.contextmanager
    def hold(self, *, shared: bool, waiting: Callable[[str, float], None]) -> Iterator[str]:
        """Hold the device, alone or with others that share it; yields a note, "" if there was no wait.

        waiting is called with the holder of the device and the seconds waited so far. If the files cannot be locked, the block
        runs anyway, and the note says so.
        """
        with contextlib.ExitStack() as stack:
            try:
                note = self._wait(stack, shared, waiting)
            except _LockError as error:
                stack.close()
                note = f"took no turns with other runs ({error})"
            yield note

    def held_by(self) -> set[int]:
        """The processes that have locked this device's files, as far as the kernel says."""
        with contextlib.suppress(OSError):
            files = {path.stat().st_ino for path in _folder().glob(f"{self._name}.*")}
            rows = [line.split() for line in Path("/proc/locks").read_text().splitlines() if " FLOCK " in line]
            return {int(row[4]) for row in rows if row[1] == "FLOCK" and int(row[5].rpartition(":")[2]) in files}
        return set()

    def _wait(self, stack: contextlib.ExitStack, shared: bool, waiting: Callable[[str, float], None]) -> str:
        gate, device = (self._open(stack, kind) for kind in ("gate", "lock"))
        began, holder = time.monotonic(), ""
        for file, how in ((gate, fcntl.LOCK_EX), (device, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)):
            while not _locked(file, how):
                holder = printable(os.pread(device, 200, 0).decode(errors="replace")) or holder or "another run"
                waiting(holder, time.monotonic() - began)
                time.sleep(POLL_S)
        fcntl.flock(gate, fcntl.LOCK_UN)
        _sign(device, self._signature)
        stack.callback(_sign, device, "")
        return f"waited {time.monotonic() - began:.1f} s for its turn: {holder}" if holder else ""

    def _open(self, stack: contextlib.ExitStack, kind: str) -> int:
        folder = _folder()
        umask = os.umask(0)  # other users must be able to open what is created here
        try:
            folder.mkdir(mode=0o1777, parents=True, exist_ok=True)
            file = _opened(folder / f"{self._name}.{kind}")
        except OSError as error:
            raise _LockError(f"{error.filename}: {error.strerror}") from None
        finally:
            os.umask(umask)
        stack.callback(os.close, file)
        return file


def _folder() -> Path:
    return Path(os.environ.get("SOFTBENCH_TURNS_DIR") or _FOLDER)


def _opened(path: Path) -> int:
    """A file to lock. In a shared folder the kernel may refuse O_CREAT for a file that another user owns."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)  # locks do not need more
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o666)
        return os.open(path, os.O_RDWR | flags)


def _locked(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _LockError(f"cannot be locked: {error.strerror}") from None
    return True


def _sign(file: int, text: str) -> None:
    with contextlib.suppress(OSError):  # opened for reading only, or the disk is full
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
