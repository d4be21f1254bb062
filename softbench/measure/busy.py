"""How much of this CPU other processes use, which changes every time measured here. Standard library only."""

import os
import time
from pathlib import Path

from softbench.measure import procfs

LOOK_S = 0.25
_MUCH = 0.1
"""Share of the cores from which on it is reported."""
_LEAST = 0.2


class Meter:
    """Since its creation: processor time of this run's cores, and of this process and its descendants."""

    def __init__(self, proc: Path = procfs.PROC) -> None:
        self._proc = proc
        self._cores = os.sched_getaffinity(0)
        self._start, self._busy, self._own = time.monotonic(), self._all_s(), self._own_s()

    def others(self) -> float | None:
        """How many of the cores other processes used on average; None if the kernel does not say."""
        busy, own, elapsed = self._all_s(), self._own_s(), time.monotonic() - self._start
        if busy is None or self._busy is None or elapsed <= 0:
            return None
        return min(max(0.0, (busy - self._busy - own + self._own) / elapsed), float(len(self._cores)))

    def text(self) -> str:
        """ "1.4 of its 2 cores" if others used much; "" if not, or if it is unknown."""
        count, found = len(self._cores), self.others()
        if found is None or found < max(_LEAST, _MUCH * count):
            return ""
        return f"{found:.1f} of its {count} core{'s' * (count > 1)}"

    def _all_s(self) -> float | None:
        """Seconds that these cores were not idle, including those taken by other virtual machines (steal)."""
        try:
            lines = [line.split() for line in (self._proc / "stat").read_text().splitlines()]
        except OSError:
            return None
        names = {f"cpu{core}" for core in self._cores}
        mine = [line[1:9] for line in lines if line[0] in names]  # user nice system idle iowait irq softirq steal
        if not mine:
            return None
        ticks = sum(int(value) for line in mine for place, value in enumerate(line) if place not in (3, 4))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _own_s(self) -> float:
        """Processor seconds of this process and its descendants, ended ones included."""
        found = {pid: fields for pid in self._pids() if (fields := procfs.stat(pid, self._proc))}
        children: dict[int, list[int]] = {}
        for pid, fields in found.items():
            children.setdefault(int(fields[1]), []).append(pid)
        ours, used_ns = [os.getpid()], 0
        for pid in ours:
            used_ns += procfs.cpu_ns(found.get(pid, []))
            ours += children.get(pid, [])
        return used_ns / 1e9

    def _pids(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._proc) if name.isdigit()]
        except OSError:
            return []


def now() -> str:
    """What others use now, measured for `LOOK_S`; see `Meter.text`."""
    meter = Meter()
    time.sleep(LOOK_S)
    return meter.text()
