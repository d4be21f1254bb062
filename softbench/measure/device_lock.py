"""Runs on one device take turns, case by case: two files a device that are locked, in a folder of all users.

Whoever wants a turn takes the gate and keeps it until the device is free. So a run that ends a case finds the gate
taken by the one that waits, and cannot start its next case first. The kernel frees the locks of a process that ends,
however it ends; what stands in the files is for people only.
"""

from __future__ import annotations

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
"""Not tempfile's: TMPDIR is often a user's own, and users would not meet."""


class _LockError(Exception):
    """There is nothing here that can be locked."""


class DeviceLock:
    """The turns on one device, named by an id that every process on this machine sees alike."""

    def __init__(self, device: str, run_id: str) -> None:
        self._name = re.sub(r"[^\w.-]", "_", device)
        self._signature = f"run {run_id} (pid {os.getpid()})"

    @contextlib.contextmanager
    def hold(self, *, shared: bool, waiting: Callable[[str, float], None]) -> Iterator[str]:
        """Holds the device, alone or with others that share it; gives a note, "" where nobody had to be waited for.

        waiting is told who holds the device and for how many seconds this has waited so far. Where the files cannot be
        locked the turn is taken all the same, and the note says so.
        """
        with contextlib.ExitStack() as stack:
            try:
                note = self._wait(stack, shared, waiting)
            except _LockError as error:
                stack.close()
                note = f"took no turns with other runs ({error})"
            yield note

    def held_by(self) -> set[int]:
        """The processes that hold this device's files locked, as far as the kernel says."""
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
        umask = os.umask(0)  # another user must be able to open what is made here
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
    """A file to lock. In a folder of all users the kernel lets nobody create what somebody else's file is in the way of."""
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
