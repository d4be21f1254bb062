"""What no kernel can do: move its bytes, or do its flops, faster than the machine can. Pure: a case's figures and a
passport's device in, a reason out.

This is the last defence, whatever made a time: a clock that was replaced, results of an earlier replay, a forged file. It must
never refuse an honest kernel, so every bound is the machine's theoretical one, and what a cache may hold is taken off first:

cold, in a row    Bytes over the bandwidth of the memory, less one L2 where a replay moves few: as it starts, that much of the
                  inputs may lie in the L2. Outputs that still lie there as it ends are not taken off, because the replay
                  before it left as many to be written back. Where a replay moves `MANY` times the L2 nothing is taken off:
                  one L2 is less than what memory lacks to its theoretical bandwidth (reads reach 95 % of it on an H200,
                  copies 90 %).
cold, one launch  Bytes over the bandwidth, less one L2, in which what is written may stay.
warm              Bytes over what the multiprocessors can exchange with the L2.
any               Flops over the dense peak of the tensor cores. On a CPU, bytes and flops over what so many cores can do.

The host time of a call must be above 0, no more. A figure that a passport lacks bounds nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from softbench.model import DTYPE_BYTES, IMPOSSIBLE, Record, Run, Samples, Status

MANY = 32
"""Times the L2 that a replay moves from which on nothing is taken off its bytes."""
SM_BYTES = 128
"""Bytes a cycle that a multiprocessor exchanges with the L2: 64 read, 64 written."""
SM_FLOPS = {
    70: 1024,
    75: 1024,
    80: 2048,
    86: 1024,
    87: 2048,
    89: 1024,
    90: 4096,
    100: 8192,
    103: 8192,
    120: 1024,
    121: 1024,
}
"""Dense flops a cycle of a multiprocessor's tensor cores in 16 bits, by compute capability; in 32 bits (TF32) half as many."""
SM_KHZ = 2_000_000
"""Clock of a multiprocessor where a passport, as all before 23 November 2026, has none. Hopper GPUs reach 1.98 GHz."""
CORE_GHZ = 6.0
CORE_BYTES = 192
"""Bytes a cycle of a core: two loads and a store of 64, all from its first cache."""
CORE_FLOPS = 2048
"""Flops a cycle of a core: AMX in 16 bits."""
IN_A_ROW = ("graph", "trial", "unsteady", "wall")
"""Clocks whose samples are launches one after another; of others each is a launch by itself."""


@dataclass(frozen=True)
class Limits:
    """What a machine can do: bytes a ns (GB/s) of its memory and of its cache, flops a ns in 16 bits; 0 where not known."""

    memory: float = 0.0
    cache: float = 0.0
    flops: float = 0.0
    l2_bytes: float = 0.0

    @classmethod
    def of(cls, device: Mapping[str, Any]) -> Limits:
        """Those of a passport's device."""
        cores = _number(device, "cores") if _number(device, "sms") == 0 else 0.0
        if cores:
            return cls(cache=cores * CORE_BYTES * CORE_GHZ, flops=cores * CORE_FLOPS * CORE_GHZ)
        cycles = _number(device, "sms") * (_number(device, "clock_khz") or SM_KHZ) / 1e6
        transfers = _number(device, "memory_clock_khz") * 2e3 * _number(device, "bus_bits") / 8 / 1e9
        return cls(
            memory=transfers or _number(device, "peak_gb_s"),
            cache=cycles * SM_BYTES,
            flops=cycles * SM_FLOPS.get(int(_number(device, "sm")), 0),
            l2_bytes=_number(device, "l2_bytes"),
        )

    def fault(self, dtype: str, ideal_bytes: int, ideal_flops: int, samples: Iterable[Samples]) -> str:
        """Why these samples cannot be, of launches with so many ideal bytes and flops; "" where they can."""
        for taken in samples:
            least, what = self._least(dtype, ideal_bytes, ideal_flops, taken)
            medians = [statistics.median(rounds) / taken.launches for rounds in taken.ns if rounds]
            fastest = min(medians, default=math.inf)
            if fastest <= 0 or fastest < least:
                needs = f", where {what}" if least else ""
                return f"{IMPOSSIBLE}: {_ns(fastest)} ns per launch by the {taken.clock} clock{needs}"
        return ""

    def _least(self, dtype: str, ideal_bytes: int, ideal_flops: int, taken: Samples) -> tuple[float, str]:
        """The least ns that a launch takes, and in words why."""
        if taken.clock == "call":
            return 0.0, ""
        flops = self.flops if DTYPE_BYTES.get(dtype, 2) <= 2 else self.flops / 2
        needs = [
            _need(ideal_flops, flops, f"flops take at least {{}} ns at {flops / 1e3:.0f} TFLOP/s"),
            _need(ideal_bytes, self.cache, f"bytes take at least {{}} ns at {self.cache:.0f} GB/s"),
        ]
        if taken.cache == "cold":
            moved = self._from_memory(ideal_bytes, taken)
            needs.append(_need(moved, self.memory, f"bytes take at least {{}} ns at {self.memory:.0f} GB/s"))
        return max(needs)

    def _from_memory(self, ideal_bytes: int, taken: Samples) -> int:
        """Bytes of a launch that no cache can hold."""
        launches = taken.launches if taken.clock in IN_A_ROW else 1
        is_long = launches > 1 and launches * ideal_bytes >= MANY * self.l2_bytes
        return ideal_bytes if is_long else max(0, ideal_bytes - math.ceil(self.l2_bytes / launches))


def without_impossible(run: Run) -> Run:
    """The run, in which cells with a time that cannot be are INCORRECT and have no samples."""
    limits = Limits.of(run.passport.device)
    return replace(run, records=tuple(_held(record, limits) for record in run.records))


def _held(record: Record, limits: Limits) -> Record:
    why = limits.fault(record.case.dtype, record.ideal_bytes, record.ideal_flops, record.samples)
    if not why:
        return record
    note = f"recorded as {record.status.value}; refused as the run was read, and its samples dropped"
    return replace(record, status=Status.INCORRECT, reason=why, samples=(), notes=(*record.notes, note))


def _need(count: int, rate: float, words: str) -> tuple[float, str]:
    """The ns that so many bytes or flops take at so many a ns, 0 where that is not known; and words that have a place for it."""
    ns = count / rate if rate > 0 else 0.0
    return ns, f"{count} {words.format(_ns(ns))}"


def _ns(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _number(device: Mapping[str, Any], key: str) -> float:
    """A positive figure of a passport's device; 0 where it has none."""
    value = device.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
