"""Which GPU and which cores a worker has for itself."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from softbench.measure import device
from softbench.run.settings import SettingsError


@dataclass(frozen=True)
class Seat:
    """visible is the worker's CUDA_VISIBLE_DEVICES and gpu the id of the card, "" where unknown; both are "" on a CPU.

    cores are those that it may run on, none of them a neighbour's; all where there are too few.
    """

    visible: str = ""
    gpu: str = ""
    cores: tuple[int, ...] = ()


def seats(count: int) -> tuple[Seat, ...]:
    """One for each of `count` workers. Raises SettingsError where there are fewer GPUs, or GPUs of several kinds."""
    cores, names, cards = os.sched_getaffinity(0), device.visible(), device.gpus()
    if not cards:
        return (Seat(cores=tuple(sorted(cores))),) * count
    if count > len(names):
        seen = "1 GPU is" if len(names) == 1 else f"{len(names)} GPUs are"
        raise SettingsError(f"-n {count}: every worker needs a GPU of its own, and {seen} visible here")
    known = cards[:count] if len(cards) == len(names) else ()
    if other := next((card for card in known if card.model != known[0].model), None):
        raise SettingsError(
            f"-n {count}: a run is made on GPUs of one kind, and here are {known[0].name} ({known[0].pci}) and "
            f"{other.name} ({other.pci}); choose some with CUDA_VISIBLE_DEVICES"
        )
    ids = [card.id for card in known] or [""] * count
    shares = share([local_cores(card.pci, cores) for card in known] or [cores] * count)
    return tuple(Seat(names[i], ids[i], shares[i]) for i in range(count))


def share(near: list[Collection[int]]) -> list[tuple[int, ...]]:
    """The cores near each GPU, divided among those that are near the same ones.

    Host time is measured as well, and a case compiles on all cores that it sees. Every n-th is taken, since the two
    threads of a core are mostly numbered a half of them all apart.
    """
    found = []
    for index, cores in enumerate(map(frozenset, near)):
        rivals = [i for i, others in enumerate(near) if frozenset(others) == cores]
        own = sorted(cores)[rivals.index(index) :: len(rivals)]
        found.append(tuple(own if len(cores) >= len(rivals) else sorted(cores)))
    return found


def local_cores(pci: str, cores: Collection[int]) -> Collection[int]:
    """Those of the cores that are on the GPU's side of the machine; all where that is not known."""
    try:
        text = Path(f"/sys/bus/pci/devices/{pci.lower()}/local_cpulist").read_text()
        ranges = [part.split("-") for part in text.strip().split(",") if part]
        local = {core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)}
    except (OSError, ValueError):
        return cores
    return local & set(cores) or cores
