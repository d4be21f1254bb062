"""Workers that outlive the forkserver, if it was killed together with their guards: this process adopts and ends them."""

import os
import signal
import time
from contextlib import suppress
from typing import ClassVar

from softbench.measure import procfs

_SECONDS = 3.0


class Orphans:
    """Create it before the forkserver starts. While a forkserver lives, this process adopts its orphans."""

    _starters: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        procfs.adopt_orphans()
        self._before = set(procfs.children(os.getpid()))

    def begin(self, pid: int) -> None:
        """This process is the forkserver."""
        self._pid = pid
        self._starters.add(pid)

    def end(self, *, was_killed: bool) -> None:
        """The forkserver has ended; if it was killed, end all orphans: children in sessions of their own."""
        self._starters.discard(self._pid)
        deadline = time.monotonic() + _SECONDS
        while was_killed and (left := self._adopted()) and time.monotonic() < deadline:
            for pid in left:
                _kill(pid)
            time.sleep(0.01)
        procfs.adopt_orphans(bool(self._starters))

    def _adopted(self) -> set[int]:
        ours = os.getsid(0)
        adopted = set(procfs.children(os.getpid())) - self._before - self._starters
        return {pid for pid in adopted if _session(pid) not in (ours, 0)}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError, PermissionError):  # it has ended, or is not ours after all
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
