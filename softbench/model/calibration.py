"""The errors of a clock, by kernels of known duration. Pure: a model.Calibration in, words and numbers out.

A clock reads a kernel's duration plus a constant: the gap between two launches of a graph, the way from the host to the GPU and
back, the start and end of a kernel. The constant is the same for short and long kernels, so the differences between durations
must be right, and no reading may be below the duration.
"""

from collections.abc import Iterable, Iterator

from softbench.model import Calibration

TOLERANCE = 0.01
"""Share of a duration by which a clock may be off, in addition to `TOLERANCE_NS`."""
TOLERANCE_NS = 500


def misreading(clock: Calibration) -> str:
    """How a clock misreads; "" if it does not, or was not tried."""
    for known, read in zip(clock.known_ns, clock.read_ns, strict=False):
        if read < known - _allowed(known):
            return f"reads {_us(read)} us of a kernel that spins for {_us(known)}"
    for known, read in _differences(clock):
        if abs(read - known) > _allowed(known):
            return f"reads {_us(read)} us where {_us(known)} us passed by the GPU's timer"
    return ""


def refusal(calibrations: Iterable[Calibration], clock: str) -> str:
    """Why a clock must not be used, or "". A device clock that could not be tried cannot be read either."""
    tried = next((c for c in calibrations if c.clock == clock), None)
    if tried is None:
        return ""
    return misreading(tried) or (tried.fault if clock == "device" else "")


def describe(clock: Calibration) -> str:
    """One line about a clock."""
    if clock.fault:
        return f"{clock.clock}: not checked: {clock.fault}"
    if why := misreading(clock):
        return f"{clock.clock}: OFF, and not used: {why}"
    if not clock.known_ns:
        return f"{clock.clock}: not checked"
    durations = ", ".join(f"{known / 1e3:.0f}" for known in clock.known_ns)
    constant = f"{_us(constant_ns(clock))} us in addition to each"
    return f"{clock.clock}: right within {share_off(clock):.2%}, by kernels of {durations} us; {constant}"


def share_off(clock: Calibration) -> float:
    """The largest error of a difference, as a share of the difference."""
    return max((abs(read - known) / known for known, read in _differences(clock)), default=0.0)


def constant_ns(clock: Calibration) -> int:
    """What the clock reads in addition to the duration of the shortest kernel."""
    return clock.read_ns[0] - clock.known_ns[0] if clock.known_ns and clock.read_ns else 0


def _differences(clock: Calibration) -> Iterator[tuple[int, int]]:
    """How much longer than the shortest kernel each other kernel was: really, and by the clock."""
    pairs = sorted(zip(clock.known_ns, clock.read_ns, strict=False))
    for known, read in pairs[1:]:
        if known > pairs[0][0]:
            yield known - pairs[0][0], read - pairs[0][1]


def _allowed(ns: int) -> float:
    return TOLERANCE * ns + TOLERANCE_NS


def _us(ns: float) -> str:
    return f"{ns / 1e3:.2f}"
