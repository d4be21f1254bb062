"""What outlives the process that starts workers, where somebody killed it together with their guards: it falls to this process."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import ClassVar

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS = 3.0


class Orphans:
    """Made before the process that starts workers, and told its pid. While one lives this process adopts their orphans."""

    _starters: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        _adopt(True)
        self._before = set(_children())

    def begin(self, pid: int) -> None:
        """Workers are started by this process."""
        self._pid = pid
        self._starters.add(pid)

    def end(self, *, was_killed: bool) -> None:
        """It has ended. Where it could not end its workers itself, end all that was adopted: children in sessions of their own."""
        self._starters.discard(self._pid)
        deadline = time.monotonic() + _SECONDS
        while was_killed and (left := self._adopted()) and time.monotonic() < deadline:
            for pid in left:
                _kill(pid)
            time.sleep(0.01)
        _adopt(bool(self._starters))

    def _adopted(self) -> set[int]:
        ours = os.getsid(0)
        return {p for p in set(_children()) - self._before - self._starters if _session(p) not in (ours, 0)}


def _adopt(wanted: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _children() -> list[int]:
    found: list[int] = []
    for children in Path("/proc/self/task").glob("*/children"):
        try:
            found += map(int, children.read_text().split())
        except OSError:
            continue  # a thread that ended meanwhile
    return found


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError, PermissionError):
        pass  # it has ended, or was somebody else's after all
