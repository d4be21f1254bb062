"""The machine: the device, the clocks, and what could disturb a run."""

import shutil
import tempfile
from pathlib import Path

from softbench.doctor.findings import NOT_TRIED, Findings, Target
from softbench.measure import cubin, device
from softbench.measure.other_processes import OtherProcesses
from softbench.session import passport

GIB = 1 << 30


def look(target: Target) -> Findings:
    """Nothing here is a failure: the findings name what is missing, and what that means."""
    target.progress("the machine")
    card = target.card
    lines = [
        _device(card),
        "packages: " + ", ".join(f"{name} {version}" for name, version in passport.packages().items()),
        _cuobjdump(),
        "clocks: " + ("wall" if card is None else "graph, which ranks; call; device; cold, if the L2 of the graph is warm"),
    ]
    if card is None:
        lines += [f"telemetry: {NOT_TRIED}", f"other processes on the GPU: {NOT_TRIED}"]
        trust = ["times: of this CPU, by its host clock; they say nothing about a GPU"]
    else:
        monitored, warnings = _monitored(card)
        lines += monitored
        trust = [f"times: of this {card.name}", *warnings]
    lines.append(_disk(target.reports))
    return Findings("Machine", tuple(lines), (), tuple(trust))


def _device(card: device.Gpu | None) -> str:
    if card is None:
        host = device.describe()
        return f"no CUDA GPU; {host['name']}, {host['cores']} cores, {host['memory_bytes'] / GIB:.0f} GiB"
    return (
        f"{card.name}, sm_{card.sm}, {card.sms} SMs, {card.memory_bytes / GIB:.0f} GiB, {card.l2_bytes / 2**20:.0f} MiB of L2, "
        f"driver {card.driver or 'unknown'}, {card.peak_gb_s:.0f} GB/s by clock x bus width"
    )


def _cuobjdump() -> str:
    try:
        return f"cuobjdump: {cubin.cuobjdump()}"
    except cubin.ToolMissing as error:
        return f"cuobjdump: missing, so kernels cannot be inspected: {error}"


def _monitored(card: device.Gpu) -> tuple[list[str], list[str]]:
    """Lines on telemetry and other processes, and what they mean for the numbers."""
    monitor = device.Monitor(card)
    reading = monitor.read()
    if reading.sm_clock_mhz is None:
        unread = "cannot be read (is nvidia-ml-py missing? pip install nvidia-ml-py)"
        return (
            [f"telemetry: {unread}", f"other processes on the GPU: {unread}"],
            ["without telemetry a throttled GPU and other processes are not noticed"],
        )
    state = (
        f"telemetry: SM {reading.sm_clock_mhz} MHz, memory {reading.memory_clock_mhz} MHz, {reading.power_w} W, "
        f"{reading.temperature_c} °C, {'throttled: ' + reading.throttle if reading.throttle else 'not throttled'}"
    )
    others = tuple(OtherProcesses(monitor).names().values())
    warnings = ["another process is on the GPU: no time is valid while it works"] if others else []
    return [state, f"other processes on the GPU: {', '.join(others) or 'none'}"], warnings


def _disk(reports: Path) -> str:
    """Whether records can be written, tried in the folder or in its nearest parent that exists."""
    folder = next(path for path in (reports.absolute(), *reports.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
        return f"records: {reports} can be written, {shutil.disk_usage(folder).free / GIB:.1f} GiB free"
    except OSError as error:
        return f"records: {reports} cannot be written ({error.strerror}); a run would end before it measures"
