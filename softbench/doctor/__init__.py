"""How far this machine's numbers can be trusted: the clocks, known cheats and mistakes, one kernel against itself."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

from softbench.analysis.document import Dataset, Document, Heading, Lines
from softbench.doctor import against_itself, examples, known_durations, machine
from softbench.doctor.findings import Findings, Target
from softbench.measure import device
from softbench.measure.device_lock import DeviceLock
from softbench.texts import InputError

PARTS: tuple[Callable[[Target], Findings], ...] = (machine.look, known_durations.look, examples.look, against_itself.look)
"""Each examines one thing, and is independent of the others."""


def examine(reports: Path, contests: int | None, progress: Callable[[str], None]) -> tuple[Findings, ...]:
    """The findings of every part. Workers are started, and ended.

    reports   the folder that runs would be written to; nothing is written there
    contests  number of contests of one kernel against itself; None: as many as start within seconds
    progress  called with a text on what is examined

    Raises InputError without torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError("torch is not installed, and nothing can be run without it: pip install torch")
    card = device.gpu()
    target = Target(card, reports, contests, progress)
    lock = DeviceLock(card.id if card is not None else "cpu", "of the doctor")
    with lock.hold(shared=False, waiting=lambda who, _: progress(f"waiting for {who}")):
        return tuple(part(target) for part in PARTS)


def document(parts: tuple[Findings, ...]) -> Document:
    trust = tuple(line for part in parts for line in part.trust)
    failures = tuple(line for part in parts for line in part.failures)
    sections = [(part.title, part.lines) for part in parts]
    sections.append(("How far the numbers of this machine can be trusted", trust))
    sections.append((f"{len(failures)} failed" if failures else "Nothing failed.", failures))
    return [part for title, own in sections for part in (Heading(title), *([Lines(own, commands=True)] if own else ()))]


def datasets(parts: tuple[Findings, ...]) -> Iterator[Dataset]:
    """Every line of the findings with its kind, and what was read."""
    rows = []
    for part in parts:
        for kind, texts in (("finding", part.lines), ("failure", part.failures), ("trust", part.trust)):
            rows += [(part.title, kind, text) for text in texts]
    yield Dataset("findings", ("part", "kind", "text"), tuple(rows))
    for part in parts:
        yield from part.data
