"""Which GPU and which cores a worker has for itself."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softbench.measure import device
from softbench.session.settings import SettingsError


@dataclass(frozen=True)
class Seat:
    """visible is the worker's CUDA_VISIBLE_DEVICES, gpu the GPU's id, "" if unknown; both are "" on a CPU.

    cores are those that it may run on, shared with no other worker; all of them if there are too few.
    host is the name of its host in a run of several.
    """

    visible: str = ""
    gpu: str = ""
    cores: tuple[int, ...] = ()
    host: str = ""


def seats(count: int) -> tuple[Seat, ...]:
    """One for each of `count` workers. Raises SettingsError if there are fewer GPUs, or GPUs of several kinds."""
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
    return tuple(map(Seat, names, ids, shares))


def places(crew: Sequence[Seat]) -> dict[str, Any]:
    """What a passport says of seats: the ids of their GPUs, and these by host."""
    ids = [(seat.host, seat.gpu or seat.visible) for seat in crew]
    gpus = [gpu for _, gpu in ids if gpu]
    hosts = {host: [gpu for its, gpu in ids if gpu and its == host] for host, _ in ids if host}
    return {key: value for key, value in (("gpus", gpus), ("hosts", hosts)) if value}


def share(near: list[Collection[int]]) -> list[tuple[int, ...]]:
    """The cores near each GPU, divided among the GPUs that are near the same cores.

    Host time is measured too, and a case compiles on all cores that it sees. Each gets every n-th core: the two threads of a core
    usually have numbers that differ by half of the count.
    """
    shares = []
    for index, cores in enumerate(map(frozenset, near)):
        rivals = [i for i, others in enumerate(near) if frozenset(others) == cores]
        own = sorted(cores)[rivals.index(index) :: len(rivals)]
        shares.append(tuple(own if len(cores) >= len(rivals) else sorted(cores)))
    return shares


def local_cores(pci: str, cores: Collection[int]) -> Collection[int]:
    """The cores on the GPU's side of the machine; all if that is unknown."""
    try:
        text = Path(f"/sys/bus/pci/devices/{pci.lower()}/local_cpulist").read_text()
        ranges = [part.split("-") for part in text.strip().split(",") if part]
        local = {core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)}
    except (OSError, ValueError):
        return cores
    return local & set(cores) or cores
