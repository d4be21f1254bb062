"""Whose processes are on the GPU beside our own: whatever runs there makes the figures of a case worse than they are."""

from __future__ import annotations

import os
from pathlib import Path

from softbench.measure import procfs
from softbench.measure.device import GpuProcess, Monitor
from softbench.texts import printable

_OUR_KIND = "softbench.measure.worker.forkserver"
"""In the command line of every worker. Those of another run take turns with ours, and only wait while it is our turn."""
_ENDING = 0x4
"""The kernel's PF_EXITING: a process that runs no more code, whose memory on the GPU is being taken down."""


class OtherProcesses:
    """Made before the first worker of the run is, since what is on the GPU by then is not ours, whatever its number.

    In a container NVML may give numbers that nothing has there. A late one of those can be a worker of ours.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._hidden = {process.pid for process in monitor.processes() if not _exists(process.pid)}

    def names(self) -> dict[int, str]:
        """The others on the GPU right now: pid to name, pid and memory."""
        return {process.pid: _text(process) for process in self._monitor.processes() if self._is_foreign(process.pid)}

    def _is_foreign(self, pid: int) -> bool:
        if not _exists(pid):
            return pid in self._hidden
        return _OUR_KIND not in _command(pid) and not _is_ours(pid) and not _is_ending(pid)


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _is_ending(pid: int) -> bool:
    """Whether it has ended but for what the kernel does; NVML lists it that long, and its command line is empty."""
    fields = procfs.stat(pid)
    return not fields or bool(int(fields[6]) & _ENDING)


def _is_ours(pid: int) -> bool:
    """Whether this process started it, or started what started it."""
    while pid > 1:
        if pid == os.getpid():
            return True
        fields = procfs.stat(pid)
        pid = int(fields[1]) if fields else 0
    return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _text(process: GpuProcess) -> str:
    """Without its arguments, which are nobody else's business."""
    words = _command(process.pid).split() or process.name.split()
    script = [os.path.basename(word) for word in words[1:2] if word.endswith(".py")]
    name = " ".join([os.path.basename(words[0]) if words else "a process without a name", *script])
    memory = "" if process.memory_bytes is None else f", {process.memory_bytes / 1e9:.1f} GB"
    return f"{printable(name)[:60]} (pid {process.pid}{memory})"
