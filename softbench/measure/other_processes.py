"""Processes on the GPU that are not ours: they make the figures of a case worse."""

import os
from pathlib import Path

from softbench.measure import procfs
from softbench.measure.device import GpuProcess, Monitor
from softbench.texts import printable

_OUR_KIND = "softbench.measure.worker.forkserver"
"""In the command line of every worker, also of other runs, which only wait while this run holds the device."""
_ENDING = 0x4
"""The kernel's PF_EXITING: a process that runs no more code, whose GPU memory is being freed."""


class OtherProcesses:
    """Create it before the first worker of the run, since what is on the GPU by then is not ours.

    In a container NVML may report pids that do not exist there. A pid like that which appears later can be our worker's.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._hidden = {process.pid for process in monitor.processes() if not _exists(process.pid)}

    def names(self) -> dict[int, str]:
        """The other processes on the GPU now: pid -> name, pid and memory."""
        return {process.pid: _text(process) for process in self._monitor.processes() if self._is_foreign(process.pid)}

    def _is_foreign(self, pid: int) -> bool:
        if not _exists(pid):
            return pid in self._hidden
        return _OUR_KIND not in _command(pid) and not _is_ours(pid) and not _is_ending(pid)


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _is_ending(pid: int) -> bool:
    """Whether only the kernel still works on its end; NVML lists it that long, and its command line is empty."""
    fields = procfs.stat(pid)
    return not fields or bool(int(fields[6]) & _ENDING)


def _is_ours(pid: int) -> bool:
    """Whether it descends from this process."""
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
    """Without its arguments, which are private."""
    words = _command(process.pid).split() or process.name.split()
    script = [os.path.basename(word) for word in words[1:2] if word.endswith(".py")]
    name = " ".join([os.path.basename(words[0]) if words else "a process without a name", *script])
    memory = "" if process.memory_bytes is None else f", {process.memory_bytes / 1e9:.1f} GB"
    return f"{printable(name)[:60]} (pid {process.pid}{memory})"
