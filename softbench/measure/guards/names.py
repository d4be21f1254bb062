"""Notices when an implementation has replaced what a CPU is timed, checked and drawn with."""

import importlib
from collections.abc import Iterator
from typing import Any

from softbench.measure.guards import modes

WATCHED: dict[str, tuple[str, ...]] = {
    "time": (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns",
    ),
    "torch": ("Tensor", "equal"),
    "torch.nn": ("Parameter",),
    "os": ("urandom",),
    "random": ("_urandom", "SystemRandom"),
    "random.SystemRandom": ("getrandbits", "random"),
    "random.Random": ("randrange", "sample", "_randbelow"),
    "softbench.measure.check": ("check", "compare"),
    "softbench.measure.guards.calls": ("KeptCalls", "shared"),
    "softbench.measure.guards.calls.KeptCalls": ("keep", "drawn", "changed", "renew", "given"),
    "softbench.measure.guards.modes": ("left_on", "refusing"),
    "softbench.measure.guards.two_clocks": ("disagreement", "replaced"),
    "softbench.measure.wall": ("WallPlacement",),
    "softbench.measure.wall.WallClock": ("time",),
    "softbench.measure.wall.WallPlacement": ("turn", "pick"),
    "softbench.measure.clocks.Placement": ("nudge", "pick", "given", "repeat", "drawn"),
}  # fmt: skip
"""Owner -> its names that are compared by identity. Triton, Liger, quack, the CuTe DSL and torch.compile replace none of them."""


class TamperCheck:
    """Remembers what the watched names refer to; create it before any implementation is imported."""

    def __init__(self) -> None:
        self._owners = {owner: _find(owner) for owner in WATCHED}
        self._originals = dict(self._now())
        self._left_on = modes.left_on
        self._left_on()  # takes what it needs from torch

    def fault(self, when: str) -> str:
        """Which name has been replaced, or which mode of torch is on, in words; "" if neither."""
        if left := self._left_on():
            return left
        name = next((name for name, thing in self._now() if thing is not self._originals[name]), "")
        return f"patched: {name} was replaced by the end of {when}" if name else ""

    def _now(self) -> Iterator[tuple[str, Any]]:
        for owner, names in WATCHED.items():
            for name in names:
                yield f"{owner}.{name}", getattr(self._owners[owner], name, None)


def _find(path: str) -> Any:
    """A module, or a class in one."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name) if name[0].isupper() else importlib.import_module(path)
