"""What Linux says about processes, and three of its settings for them. Standard library only."""

import ctypes
import os
from pathlib import Path

PROC = Path("/proc")
_MOST_PROCESSES = 10_000
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def stat(pid: int, proc: Path = PROC) -> list[str]:
    """The fields of /proc/PID/stat from the state on: [0] is the state, [1] the parent; none if there is no such process."""
    try:  # the name before them may hold anything, brackets and spaces too
        return (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def cpu_ns(fields: list[str]) -> int:
    """Processor time, user and kernel, of a process with these `stat` fields and of its children that ended."""
    return sum(map(int, fields[11:15])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    pids: list[int] = []
    for file in (PROC / str(pid) / "task").glob("*/children"):
        try:
            pids += map(int, file.read_text().split())
        except OSError:
            continue  # the thread ended meanwhile
    return pids


def tree(pid: int) -> list[int]:
    """A process and all its descendants, except those whose parent has ended."""
    pids = [pid]
    for one in pids:
        if len(pids) >= _MOST_PROCESSES:
            break
        pids += children(one)
    return pids


def die_with_parent(signal: int) -> None:
    """Have the kernel send this process the signal when its parent ends; 0 for none."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def adopt_orphans(is_wanted: bool = True) -> None:
    """Make this process the parent of descendants whose own parent ends, instead of the system's first process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(is_wanted))


def name(text: str) -> None:
    """Give this thread, the first of its process, a name of at most 15 bytes: what `ps -o comm` and `top` show."""
    _prctl(_PR_SET_NAME, text.encode())


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
