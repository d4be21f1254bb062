"""A case in which processes were ended from outside, perhaps by a rival: docs/measuring.md, "Other processes"."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from softbench.measure.contest.entrant import Entrant
from softbench.model import Record, Status, Variant

Key = tuple[str, bool]
"""A variant's id, and whether it is the roof's."""
AGAIN = "measured again, apart from the others: in the contest with them processes were ended from outside"
BLAMED = "processes of the harness were ended while no other implementation was there"


@dataclass(frozen=True)
class Outcome:
    """The records of a contest, and the entrants that were ended from outside."""

    records: list[Record]
    ended: list[Entrant]

    @property
    def has_lost_its_own(self) -> bool:
        """Whether the roof or the reference, which link all others, was ended."""
        return any(entrant.always_in_heats for entrant in self.ended)


Once = Callable[[Sequence[Variant], Sequence[Variant] | None], Outcome]
"""A contest between variants in fresh processes; its second argument is the candidates for the roof, None for all."""


def ended(entrants: Iterable[Entrant]) -> list[Entrant]:
    """The entrants that possibly did not end themselves."""
    return [e for e in entrants if e.is_lost or _was_ended(e)]


def _was_ended(entrant: Entrant) -> bool:
    worker = entrant.worker
    if worker is None or entrant.is_open or entrant.status is Status.PASSED:
        return False
    return worker.is_lost or (worker.was_killed and (not worker.is_isolated or entrant.role != "entrant"))


def measured(variants: Sequence[Variant], once: Once) -> list[Record]:
    """The records of a case. Entrants that were ended from outside are measured again, with only the roof and the reference.

    If one of these two was ended there, the only entrant that was with them did it; in the first contest, every entrant is
    measured again in this way.
    """
    first = once(variants, None)
    if not first.ended:
        return first.records
    names = list(dict.fromkeys(v.implementation for v in variants))
    again = [n for n in names if first.has_lost_its_own or any(e.variant.implementation == n for e in first.ended)]
    found = {_key(r): r for r in first.records}
    lost = set(map(_key, first.ended))
    kept = {}
    if not first.has_lost_its_own:
        kept = {k: r for k, r in found.items() if k not in lost and (k[1] or r.variant.implementation not in again)}
    for name in again:
        roofs = [r.variant for r in kept.values() if r.role == "roof" and r.status is Status.PASSED]
        alone = once([v for v in variants if v.implementation == name], roofs or None)
        _take(kept, found, name, alone)
    return list((found | kept).values())


def _take(kept: dict[Key, Record], first: dict[Key, Record], name: str, alone: Outcome) -> None:
    is_blamed = alone.has_lost_its_own and not any(e.variant.implementation == name for e in alone.ended)
    heat = 1 + max((s.heat for r in kept.values() for s in r.samples), default=-1)
    for record in alone.records:
        key = _key(record)
        moved = replace(record, samples=tuple(replace(s, heat=s.heat + heat) for s in record.samples))
        if record.role != "roof" and record.variant.implementation == name:
            kept[key] = _blamed(moved) if is_blamed else replace(moved, notes=(*moved.notes, AGAIN))
        elif not is_blamed and record.status is Status.PASSED:
            kept[key] = _joined(kept.get(key), moved, first.get(key))


def _joined(so_far: Record | None, more: Record, first: Record | None) -> Record:
    """The roof or the reference, which has samples of every heat."""
    if so_far is None or so_far.status is not Status.PASSED:
        return replace(more, role=first.role if first else more.role)
    return replace(so_far, samples=so_far.samples + more.samples, telemetry=so_far.telemetry + more.telemetry)


def _blamed(record: Record) -> Record:
    if record.status.is_refusal:
        return record
    return replace(record, status=Status.CRASHED, reason=BLAMED, samples=(), telemetry=(), kernels=())


def _key(one: Record | Entrant) -> Key:
    return one.variant.id, one.role == "roof"
