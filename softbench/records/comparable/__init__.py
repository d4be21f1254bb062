"""Whether two runs, or two cells of them, may stand in one table, and why not. Pure.

One board      What could have been one run: the same clock, the same machine, driver branch and versions.
Side by side   Another machine, or the same one set up otherwise: a board each. Of the figures only % of roof, which each
               machine takes against its own roof, may be read across.
Refused        Another clock, or another question under the same name: nothing of them may be read across.

Seeds, budgets, profiles and the versions of pytest matter for none of it. The source of an implementation does not either:
a changed one is another version, which a table tells apart and a comparison over time is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from softbench.model import Passport, Record

MACHINE = ("kind", "name", "sm", "sms", "l2_bytes", "memory_clock_khz", "bus_bits", "cores")
"""What of a passport's device makes another machine. Cards of one model (`pci`) differ by percents, and are one."""
HARMLESS = ("pytest", "pytest-benchmark", "typing-extensions", "packaging")
"""Packages of a passport that decide neither speed nor result."""
ALWAYS = ("python", "softbench", "torch", "triton")
"""Packages that a passport has if they are installed. Of others it has what the implementations required that its run found."""


class Terms(Enum):
    """On what terms two of a kind may be shown together; the larger, the further apart."""

    ONE_BOARD = 0
    SIDE_BY_SIDE = 1
    REFUSED = 2


@dataclass(frozen=True)
class Comparability:
    """`reason` says what keeps the two apart, "" where nothing does; `notes` say what differs and does not."""

    terms: Terms
    reason: str = ""
    notes: tuple[str, ...] = ()


def runs(a: Passport, b: Passport) -> Comparability:
    """Of two runs: clock, machine, driver and versions."""
    if a.ranking_clock != b.ranking_clock:
        said = f"{a.run_id} is ranked by the clock {a.ranking_clock!r}, {b.run_id} by {b.ranking_clock!r}"
        return Comparability(
            Terms.REFUSED, f"{said}: times of two clocks never stand in one table; show each run by itself"
        )
    apart = [f"{what} {x} and {y}" for what, x, y in differences(a, b)]
    if apart:
        return Comparability(Terms.SIDE_BY_SIDE, f"{a.run_id} and {b.run_id} are of other machines: {', '.join(apart)}")
    return Comparability(Terms.ONE_BOARD, notes=tuple(_harmless(a, b)))


def questions(a: Record, b: Record) -> Comparability:
    """Of two cells, whatever runs they are from: what was asked, and of whom."""
    if why := _other_question(a, b):
        return Comparability(Terms.REFUSED, why)
    return Comparability(Terms.ONE_BOARD, notes=tuple(_other_answerer(a, b)))


def cells(a: Passport, of_a: Record, b: Passport, of_b: Record) -> Comparability:
    """Of two cells with the runs that they are from: the further apart of both answers, and all notes."""
    both = (runs(a, b), questions(of_a, of_b))
    worse = max(both, key=lambda answer: answer.terms.value)
    return Comparability(worse.terms, worse.reason, tuple(note for answer in both for note in answer.notes))


def differences(a: Passport, b: Passport) -> Iterator[tuple[str, str, str]]:
    """What makes two machines of them: the word for it, and what each has."""
    for key in (*MACHINE, "driver"):
        x, y = (str(passport.device.get(key, "unknown")) for passport in (a, b))
        if (_branch(x) != _branch(y)) if key == "driver" else (x != y):
            yield key, x, y
    yield from (found for found in versions(a, b) if found[0] not in HARMLESS)


def versions(a: Passport, b: Passport) -> Iterator[tuple[str, str, str]]:
    """Packages that differ, and what each has. One that only one of them required made no difference to what both ran."""
    for name in sorted((a.packages.keys() & b.packages.keys()) | {*ALWAYS}):
        x, y = (found.packages.get(name, "missing") for found in (a, b))
        if x != y:
            yield name, x, y


def _branch(driver: str) -> str:
    """The release branch of a driver: within one there are repairs, and no other code for kernels."""
    return driver.partition(".")[0]


def _harmless(a: Passport, b: Passport) -> Iterator[str]:
    def values(source: Any) -> tuple[str, str]:
        return str(source(a) or "unknown"), str(source(b) or "unknown")

    for text, (x, y) in {
        "cards": values(lambda p: p.device.get("pci")),
        "drivers": values(lambda p: p.device.get("driver")),
        "commits of softbench": values(lambda p: p.commit),
    }.items():
        if x != y:
            yield f"two {text}: {x} and {y}"


def _other_question(a: Record, b: Record) -> str:
    name = a.case.id
    if name != b.case.id:
        return f"{name} and {b.case.id} are two questions"
    if a.case.timed != b.case.timed:
        return f"{name} is timed in one run and only checked in the other"
    if a.case != b.case:
        return f"{name} names two cases"
    if a.ideal_bytes and b.ideal_bytes and a.ideal_bytes != b.ideal_bytes:
        moved = f"{a.ideal_bytes} ideal bytes in one run and {b.ideal_bytes} in the other"
        return f"{name} has {moved}: the operator was defined anew"
    if (a.role == "roof") != (b.role == "roof"):
        return f"{name}: the one is its roof, the other is not"
    return ""


def _other_answerer(a: Record, b: Record) -> Iterator[str]:
    one, other = a.variant, b.variant
    if one.implementation != other.implementation:
        yield f"two implementations: {one.implementation} and {other.implementation}"
    elif one.source_hash != other.source_hash:
        yield f"two versions of {one.implementation}: {one.source_hash[:7]} and {other.source_hash[:7]}"
    elif one.params != other.params:
        yield f"two variants: {one.id} and {other.id}"
    caches = [{s.cache for s in record.samples if s.cache in ("cold", "warm")} for record in (a, b)]
    if all(caches) and caches[0] != caches[1]:
        yield f"{a.case.id} was taken with a warm L2 cache in one run and with a cold one in the other"
