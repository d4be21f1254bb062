"""What a call really did: Nsight Compute's counters of the memory, the loads and the warps.

`ncu` runs `softbench.measure.worker.streamed`. The last tens of MB that a call writes stay in the L2 and reach the memory during
later calls, so only the mean over a stream of calls is what one call costs.
"""

import csv
import json
import math
import os
import secrets
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from softbench.measure.contest.entrant import Entrant, operator_of
from softbench.measure.contest.processes import environment_for, program
from softbench.measure.device import toolkit
from softbench.measure.plans import Plan
from softbench.model import SEALED, Case, Traffic

MIN_CALLS, MAX_CALLS = 4, 32
UNSEEN_SHARE = 0.005
"""Copies and fills of a sealed call may move this share of what its kernels do; beyond it there is no figure."""
_BYTES = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum")
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_HITS = {
    "l1": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", _SECTORS),
    "l2": ("lts__t_sectors_lookup_hit.sum", "lts__t_sectors.sum"),
}
_COUNTS = {
    "load_sectors": (_SECTORS,),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "local_sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",),
    "bank_conflicts": tuple(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")),
}
_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
_ON_CHIP = tuple(dict.fromkeys([_BYTES[2], *_HITS["l1"], *_HITS["l2"], *sum(_COUNTS.values(), ()), _WARPS]))
_RUNS = (("application", _BYTES), ("kernel", _ON_CHIP))
"""How passes repeat, and what is counted. What reaches the memory takes one pass, over enough calls. The others take six; a kernel
is run again for them, which writes the L2 back between two passes: 4 to 8 % of the written bytes would be missing, and L2 hits
differ by 1 %. That takes 0.3 s, so one call is counted."""
_UNITS = {"byte": 1, "nsecond": 1, "ns": 1, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6}
Table = list[dict[str, str]]
_STREAMED = "from softbench.measure.worker.streamed import main; main(sys.argv[1])"


class TrafficError(RuntimeError):
    """The counters could not be read; the message says why."""


@dataclass(frozen=True)
class Counted:
    """What one run of ncu counted of one entrant.

    table     a line of units, then a line per kernel
    calls     how many count; twice as many were profiled
    launched  how many kernels there were, if that is known: then both halves must have the same ones
    unseen    bytes that copies and fills of a call move
    """

    table: Table
    calls: int
    launched: int | None = None
    unseen: int = 0


def calls_for(written_bytes: int, l2_bytes: int) -> int:
    """How many calls are counted: enough to write twice the L2, so that what stays in it weighs the same at both ends."""
    return max(MIN_CALLS, min(MAX_CALLS, math.ceil(2 * l2_bytes / max(1, written_bytes))))


def measure(case: Case, entrants: Sequence[Entrant], plan: Plan, calls: int, *, seed: int, timeout_s: float) -> None:
    """Add counters to entrants, the mean of `calls` in a row after as many that only warm up, or a note why there are none.

    Sealed ones share a process, in which the roofs follow them. If it fails, each has its own: one costs no other its counters.
    """
    how = {"plan": asdict(plan), "seed": seed}
    together = [e for e in entrants if e.tier == SEALED]
    together += [e for e in entrants if together and e.role == "roof"]
    shared: dict[Entrant, tuple[Counted, ...]] = {}
    if len(together) > 1:
        with suppress(TrafficError):
            shared = dict(zip(together, _counted(case, together, calls, how, timeout_s), strict=True))
    for entrant in entrants:
        try:
            entrant.traffic = read_counters(*(shared.get(entrant) or _counted(case, [entrant], calls, how, timeout_s)[0]))
        except TrafficError as error:
            entrant.notes.append(f"traffic: {error}")


def _counted(
    case: Case, entrants: Sequence[Entrant], calls: int, how: dict[str, Any], timeout_s: float
) -> list[tuple[Counted, ...]]:
    """What ncu counts in a process of one open entrant, or of sealed ones and roofs, which imports no implementation.

    Raises TrafficError.
    """
    first, marker = entrants[0], f"softbench_{secrets.token_hex(8)}"  # no hand-over has such a kernel
    built, python = first.request("stream", case), first.variant.interpreter
    if is_sealed := first.tier == SEALED:
        sealed = [entrant.sealed_file() for entrant in entrants if entrant.tier == SEALED]
        roofs = [entrant.request("stream", case) for entrant in entrants[len(sealed) :]]
        built, python = {"case": asdict(case), **operator_of(case.operator), "sealed": sealed, "roofs": roofs, "marker": marker}, ""
    found = []
    with tempfile.TemporaryDirectory(prefix="softbench-ncu-") as folder:
        for replay, metrics in _RUNS:
            counts, log = (Path(folder) / f"{replay}.{kind}" for kind in ("json", "csv"))
            asked = built | how | {"calls": calls if metrics is _BYTES else 1, "counts": str(counts)}
            streamed, variables = program(_STREAMED, asked, python)
            if is_sealed:
                variables["TMPDIR"] = folder  # or ncu waits for those on other GPUs
            limit_s = timeout_s * (3 + len(entrants)) / 4
            printed = _run([*_profiling(replay, metrics, log), *streamed], limit_s, variables | environment_for("measure"))
            parts = _parts(_table(log.read_text(errors="replace") if log.exists() else "", printed), marker)
            said = [] if is_sealed else [{"calls": asked["calls"]}]
            if is_sealed:
                with suppress(OSError, ValueError):  # missing, or cut by a full disk
                    said = json.loads(counts.read_text())
            if {len(said), len(parts)} != {len(entrants)}:
                raise TrafficError("the profiled process ended early")
            found.append([Counted(part, **words) for part, words in zip(parts, said, strict=True)])
    return [*zip(*found, strict=True)]


def _profiling(replay: str, metrics: Sequence[str], log: Path) -> list[str]:
    return [
        toolkit("ncu") or "ncu",
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
        *("--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"),
        *("--replay-mode", replay, "--target-processes", "application-only"),
        *("--metrics", ",".join(metrics)),
    ]


def _parts(table: Table, marker: str) -> list[Table]:
    """What stands between kernels of this name, each part with the line of units."""
    marks = [at for at, row in enumerate(table) if marker in (row.get("Kernel Name") or "")]
    return [table[:1] + table[first + 1 : end] for first, end in pairwise([0, *marks, len(table)])]


def _table(text: str, printed: str) -> Table:
    """ncu's CSV page of raw metrics: a line of units, then one per kernel. Raises TrafficError, with what was printed there."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        said = [line for line in lines if line.startswith("==ERROR==")] or printed.splitlines()
        last = next((line.strip()[:200] for line in reversed(said) if line.strip()), "no output")
        raise TrafficError(f"ncu read no counters: {last}")
    return list(csv.DictReader(lines[start:]))


def read_counters(memory: Counted, on_chip: Counted) -> Traffic:
    """A Traffic from what two runs counted of the same kernels. Raises TrafficError.

    The first half of each is left out: ncu starts with an L2 that holds no writes, and the writes of the first calls stay there.
    """
    halves = [_second_half(counted) for counted in (memory, on_chip)]
    each = [len(kernels) / counted.calls for (_, kernels), counted in zip(halves, (memory, on_chip), strict=True)]
    if each[0] != each[1]:
        raise TrafficError("ncu saw another number of kernels when it ran the calls again")
    sums: dict[str, float] = {}
    for (units, kernels), counted, (_, names) in zip(halves, (memory, on_chip), _RUNS, strict=True):
        sums = {name: sum(_value(row, units, name) for row in kernels) / counted.calls for name in names} | sums
    read, written, duration = (sums[name] for name in _BYTES)
    if memory.unseen > UNSEEN_SHARE * (read + written):
        raise TrafficError(f"its copies and fills move {memory.unseen} bytes per call, which ncu does not count")
    hits = {level: _percent(sums[hit], sums[all_of]) for level, (hit, all_of) in _HITS.items()}
    counts = {name: round(sum(sums[metric] for metric in metrics)) for name, metrics in _COUNTS.items()}
    units, kernels = halves[1]
    times = [_value(row, units, _BYTES[2]) for row in kernels]
    busy = sum(_value(row, units, _WARPS) * time for row, time in zip(kernels, times, strict=True)) / max(1.0, sum(times))
    return Traffic(round(read), round(written), round(duration), hits["l1"], hits["l2"], **counts, warps_percent=round(busy, 1))


def _second_half(counted: Counted) -> tuple[dict[str, str], Table]:
    """The line of units, and the kernels that count. Raises TrafficError."""
    if len(counted.table) < 2:
        raise TrafficError("ncu saw no kernel in the calls")
    units, *kernels = counted.table
    if counted.launched not in (None, len(kernels)):
        raise TrafficError(f"ncu saw {len(kernels)} of {counted.launched} kernels")
    if len(kernels) % (2 * counted.calls):
        raise TrafficError(f"ncu saw {len(kernels)} kernels in {2 * counted.calls} calls, which is not as many in each")
    first, second = kernels[: len(kernels) // 2], kernels[len(kernels) // 2 :]
    if counted.launched is not None and _names(first) != _names(second):
        raise TrafficError("ncu saw other kernels in the second half of the calls than in the first")
    return units, second


def _names(kernels: Sequence[Mapping[str, str]]) -> Counter[str]:
    return Counter(row.get("Kernel Name", "") for row in kernels)


def _value(row: Mapping[str, str], units: Mapping[str, str], name: str) -> float:
    try:
        return float(row[name].replace(",", "")) * (_UNITS[units[name]] if name in _BYTES else 1)
    except (KeyError, ValueError, AttributeError):
        raise TrafficError(f"ncu gave {row.get(name)!r} {units.get(name)!r} for {name}") from None


def _percent(part: float, whole: float) -> float | None:
    return round(100.0 * part / whole, 1) if whole else None


def _run(command: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> str:
    """What the command printed. If it is late, its whole process group is ended."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=environment, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise TrafficError(f"ncu cannot be started: {error.strerror}") from None
    with process:
        try:
            return process.communicate(timeout=timeout_s)[0]
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TrafficError(f"ncu took longer than {timeout_s:g} s") from None
            raise
