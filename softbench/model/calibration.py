"""What kernels of known duration say about a clock. Pure: a model.Calibration in, words and numbers out.

A clock reads a kernel's duration and a constant beside it: the gap between two launches of a graph, the host's way to the GPU and
back, the start and end of a kernel. The constant is the same for a short kernel and a long one, so a clock is held to the
differences between durations, and otherwise only to reading no less than passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softbench.model import Calibration

TOLERANCE = 0.01
"""Share of a duration by which a clock may be off, beside `TOLERANCE_NS`."""
TOLERANCE_NS = 500


def misreading(found: Calibration) -> str:
    """How a clock misreads, or "" where it does not, or was not tried."""
    for known, read in zip(found.known_ns, found.read_ns, strict=False):
        if read < known - _allowed(known):
            return f"reads {_us(read)} us of a kernel that spins for {_us(known)}"
    for known, read in _differences(found):
        if abs(read - known) > _allowed(known):
            return f"reads {_us(read)} us where {_us(known)} us passed by the GPU's timer"
    return ""


def refusal(calibrations: Iterable[Calibration], clock: str) -> str:
    """Why a clock is not to be used, or "". The device clock cannot be read at all where it could not be tried."""
    found = next((c for c in calibrations if c.clock == clock), None)
    if found is None:
        return ""
    return misreading(found) or (found.fault if clock == "device" else "")


def describe(found: Calibration) -> str:
    """A line on one clock."""
    if found.fault:
        return f"{found.clock}: not checked: {found.fault}"
    if why := misreading(found):
        return f"{found.clock}: OFF, and not used: {why}"
    if not found.known_ns:
        return f"{found.clock}: not checked"
    durations = ", ".join(f"{known / 1e3:.0f}" for known in found.known_ns)
    beside = f"{_us(constant_ns(found))} us beside each"
    return f"{found.clock}: right within {share_off(found):.2%}, by kernels of {durations} us; {beside}"


def share_off(found: Calibration) -> float:
    """The largest error of a difference, as a share of it."""
    return max((abs(read - known) / known for known, read in _differences(found)), default=0.0)


def constant_ns(found: Calibration) -> int:
    """What the clock reads beside the shortest kernel's own duration."""
    return found.read_ns[0] - found.known_ns[0] if found.known_ns and found.read_ns else 0


def _differences(found: Calibration) -> Iterator[tuple[int, int]]:
    """How much longer than the shortest kernel each other one was, and was read to be."""
    pairs = sorted(zip(found.known_ns, found.read_ns, strict=False))
    for known, read in pairs[1:]:
        if known > pairs[0][0]:
            yield known - pairs[0][0], read - pairs[0][1]


def _allowed(ns: int) -> float:
    return TOLERANCE * ns + TOLERANCE_NS


def _us(ns: float) -> str:
    return f"{ns / 1e3:.2f}"
