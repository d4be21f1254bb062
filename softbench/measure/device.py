"""The machine: name, SMs, L2, theoretical peak, telemetry; and why it does not meet a requirement.

Read from the driver (libcuda through ctypes), so that neither torch nor a CUDA context is needed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from softbench import packages
from softbench.model import Telemetry

_ATTRIBUTES = {
    "sms": 16, "l2_bytes": 38, "clock_khz": 13, "memory_clock_khz": 36, "bus_bits": 37, "major": 75, "minor": 76,
}  # fmt: skip
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9_.-]+)\s*(?:>=\s*([A-Za-z0-9_.]+))?\s*$")


@dataclass(frozen=True)
class Gpu:
    """One CUDA device as the driver describes it. Memory and L2 in bytes, bus in bits, highest clocks in kHz; 0 if unknown."""

    name: str
    sm: int
    sms: int
    l2_bytes: int
    memory_bytes: int
    memory_clock_khz: int
    bus_bits: int
    pci: str = ""
    driver: str = ""
    uuid: str = ""
    clock_khz: int = 0

    @property
    def id(self) -> str:
        """What tells this GPU from others of its model."""
        return self.uuid or self.pci

    @property
    def model(self) -> Gpu:
        """What it shares with other GPUs of its model, whose times may be compared."""
        return replace(self, pci="", uuid="")

    @property
    def peak_gb_s(self) -> float:
        """Theoretical bandwidth: two transfers per clock over the whole bus, decimal GB/s."""
        return self.memory_clock_khz * 1e3 * 2 * self.bus_bits / 8 / 1e9

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "kind": "cuda", "peak_gb_s": round(self.peak_gb_s, 1)}


@lru_cache(maxsize=1)
def gpus() -> tuple[Gpu, ...]:
    """The visible GPUs in the driver's order, by CUDA_VISIBLE_DEVICES as it was when the driver was first asked."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_gpu(cuda, ordinal) for ordinal in range(count.value))


def gpu() -> Gpu | None:
    """The first visible GPU, which is the one that is measured, or None."""
    return next(iter(gpus()), None)


def visible() -> tuple[str, ...]:
    """For each visible GPU the value of CUDA_VISIBLE_DEVICES that makes it the only one.

    Of several MIG devices that are named, the driver counts one.
    """
    found, given = gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(ordinal) for ordinal in range(len(found))] if given is None else [w.strip() for w in given.split(",")]
    slices = [name for name in names if name.startswith("MIG-")]
    return tuple(slices if slices and found else names[: len(found)])


def _gpu(cuda: Any, ordinal: int) -> Gpu:
    device, name, pci = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    cuda.cuDeviceGetName(name, 256, device)
    cuda.cuDeviceGetPCIBusId(pci, 32, device)
    memory = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    values = {}
    for key, attribute in _ATTRIBUTES.items():
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        values[key] = value.value
    sm = values.pop("major") * 10 + values.pop("minor")
    return Gpu(
        name=name.value.decode(),
        sm=sm,
        memory_bytes=memory.value,
        pci=pci.value.decode(),
        driver=_driver(),
        uuid=_uuid(cuda, device),
        **values,
    )


def _uuid(cuda: Any, device: ctypes.c_int) -> str:
    """As nvidia-smi writes it; the slice's for a MIG device."""
    value = (ctypes.c_ubyte * 16)()
    if cuda.cuDeviceGetUuid_v2(value, device):
        return ""
    kind = "MIG" if os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-") else "GPU"
    return f"{kind}-{uuid.UUID(bytes=bytes(value))}"


def describe() -> dict[str, Any]:
    """The machine for the passport: the GPU, or the processor without one."""
    card = gpu()
    if card is not None:
        return card.describe()
    name = _found(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.processor()
    return {"kind": "cpu", "name": name, "cores": len(os.sched_getaffinity(0)), "memory_bytes": host_memory()}


def host_memory() -> int:
    """Physical memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def toolkit(program: str) -> str:
    """The path of a program of the CUDA toolkit; "" where it is not installed."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(program) or shutil.which(program, path=f"{home}/bin") or ""


def missing(requirement: str, card: Gpu | None, path: Sequence[str] | None = None) -> str:
    """Why a requirement is not met, or "" if it is. "cuda>=sm_90" means the GPU, anything else a distribution (of a path)."""
    match = _REQUIREMENT.match(requirement)
    if not match:
        return f"the requirement {requirement!r} cannot be read; write 'cuda>=sm_90' or 'distribution>=1.2'"
    name, least = match.groups()
    if name == "cuda":
        wanted = int(re.sub(r"\D", "", least or "") or 0)
        if least and not wanted:
            return f"the requirement {requirement!r} cannot be read; write 'cuda>=sm_90'"
        if card is None:
            return "needs a CUDA GPU, and this machine has none"
        return "" if card.sm >= wanted else f"needs {least}, and {card.name} is sm_{card.sm}"
    found = packages.installed(name, path)
    if found is None:
        how = packages.remedy(name) if path is None else ""
        return f"{name} is not installed" + (f": {how}" if how else "")
    if least and _release(found.version) < _release(least):
        return f"needs {name} >= {least}, and {found.version} is installed"
    return ""


def expectation(expected: str, card: Gpu | None) -> str:
    """Why this machine is not the expected GPU ("H100"), or "". A GH200 is not an H200: whole words count."""
    if card is None:
        return f"an {expected} is expected, but no CUDA GPU is visible here"
    wanted, words = (set(re.findall(r"[A-Z0-9]+", text.upper())) for text in (expected, card.name))
    return "" if wanted <= words else f"an {expected} is expected, but this machine has {card.name!r}"


@dataclass(frozen=True)
class GpuProcess:
    """A process with memory on a GPU; memory_bytes is None if the driver does not say."""

    pid: int
    name: str
    memory_bytes: int | None


class Monitor:
    """Reads the GPU's state through NVML, if nvidia-ml-py is installed; else every reading is empty."""

    def __init__(self, card: Gpu | None) -> None:
        self._nvml: Any = None
        if card is None:
            return
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(card.pci.encode())
            self._nvml = pynvml
        except Exception:  # no NVML is no reason not to measure; the record then says null
            self._nvml = None

    def read(self) -> Telemetry:
        nvml = self._nvml
        if nvml is None:
            return Telemetry()

        def value(query: Callable[..., int], *what: int) -> int | None:
            try:
                return int(query(self._handle, *what))
            except nvml.NVMLError:  # a slice of a GPU has no power reading; the other values still count
                return None

        power, bits = value(nvml.nvmlDeviceGetPowerUsage), value(nvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0
        return Telemetry(
            sm_clock_mhz=value(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=value(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            power_w=None if power is None else power // 1000,
            temperature_c=value(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            throttle="+".join(word for bit, word in _THROTTLE.items() if bits & bit),
        )

    def processes(self) -> tuple[GpuProcess, ...]:
        """All processes on the GPU, our own workers included; none if that is unknown."""
        if self._nvml is None:
            return ()
        nvml = self._nvml
        found: dict[int, int | None] = {}
        for query in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            try:
                found |= {process.pid: process.usedGpuMemory for process in query(self._handle)}
            except nvml.NVMLError:  # not every GPU lists graphics processes
                continue
        return tuple(GpuProcess(pid, self._name(pid), memory) for pid, memory in sorted(found.items()))

    def _name(self, pid: int) -> str:
        try:
            name = self._nvml.nvmlSystemGetProcessName(pid)
        except self._nvml.NVMLError:  # it has ended, or belongs to another user
            return ""
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


# NVML's bits, without those for idle, set clocks, synchronised groups and the display.
_THROTTLE = {0x4: "power_cap", 0x8: "hw_slowdown", 0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "power_brake"}


def _release(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3]]
    return (*parts, *[0] * (3 - len(parts)))


def _driver() -> str:
    return _found(r"(\d+\.\d+(?:\.\d+)?)", "/proc/driver/nvidia/version")


def _found(pattern: str, path: str) -> str:
    """What the pattern's group finds first in a file; "" for nothing, or without the file."""
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return ""
    return match[1] if match else ""
