"""Whether the GPU was the same in all placements of a heat, by its telemetry.

Never by the times: to leave out what was slow is to choose the result.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from softbench.model import Telemetry

CLOCK_SHARE = 0.97
"""Share of the heat's median SM or memory clock; a placement below it is measured again. A step of an H200's SM clock is 15 MHz,
0.8 % of 1980 MHz, and in 771 placements of three runs neither clock moved: four steps down are another GPU, one is not."""
MAX_AGAIN = 8
"""Most placements of a heat that are measured again, as many as a first look takes: an unsteady GPU is measured anyway."""
EVERY_S = 0.1
"""Seconds between readings: each takes several driver calls, and nothing that throttles a GPU is over sooner."""

_CLOCKS = {"SM clock": "sm_clock_mhz", "memory clock": "memory_clock_mhz"}


class Watch:
    """Reads the telemetry of one placement: between rounds now and then, and at its end."""

    def __init__(self, read: Callable[[], Telemetry]) -> None:
        self._read = read
        self._seen: list[Telemetry] = []
        self._last = time.monotonic()

    def glance(self) -> None:
        if time.monotonic() - self._last >= EVERY_S:
            self._look()

    def placement(self) -> Telemetry:
        """All readings of the placement, which ends here, merged."""
        self._look()
        return merged(self._seen)

    def _look(self) -> None:
        self._seen.append(self._read())
        self._last = time.monotonic()


def merged(readings: Sequence[Telemetry]) -> Telemetry:
    """The worst of some readings: lowest clocks, highest power and temperature, every throttle reason."""
    words = [word for reading in readings for word in reading.throttle.split("+") if word]
    return Telemetry(
        sm_clock_mhz=min(_known(r.sm_clock_mhz for r in readings), default=None),
        memory_clock_mhz=min(_known(r.memory_clock_mhz for r in readings), default=None),
        power_w=max(_known(r.power_w for r in readings), default=None),
        temperature_c=max(_known(r.temperature_c for r in readings), default=None),
        throttle="+".join(dict.fromkeys(words)),
    )


def fault(reading: Telemetry, heat: Sequence[Telemetry]) -> str:
    """Why the rounds of a placement are not like the others of the heat; "" if they are.

    heat holds the readings of all its placements. A power limit alone is no fault: it holds for many GPUs under load, and if it
    lowers the clocks of some placements, their clocks show it.
    """
    faults = [f"throttled ({reading.throttle})"] if reading.is_throttled else []
    for word, name in _CLOCKS.items():
        mhz, known = getattr(reading, name), _known(getattr(other, name) for other in heat)
        if mhz is not None and mhz < CLOCK_SHARE * statistics.median(known):
            faults.append(f"{word} {mhz} MHz where {statistics.median(known):.0f} MHz is the heat's")
    return ", ".join(faults)


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]
