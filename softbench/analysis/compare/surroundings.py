"""What differs between two runs apart from the cells: driver, versions, settings, clock speeds, sources."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from softbench.model import Passport, Run, Variant
from softbench.records import comparable

CLOCK_STEP = 0.01
"""Medians of a clock's speed that differ by less count as equal: a GPU's clock moves in steps of 15 MHz."""
_DEVICE = {"driver": "driver", "pci": "PCI slot of the card", "uuid": "card", "memory_bytes": "bytes of memory"}
KINDS = ("card", "driver", "packages", "code", "roof", "budget", "options", "clock")
"""What times may depend on."""
_KIND = {"softbench": "code", "driver": "driver", "budget_s": "budget", "run_budget_s": "budget"}
_KIND |= dict.fromkeys((*comparable.HARMLESS, "pci", "selection"), "")


@dataclass(frozen=True)
class Change:
    """One thing that differs, with its values before and after; kind is one of `KINDS` or ""."""

    what: str
    before: str
    after: str
    kind: str = ""


def date(passport: Passport) -> str:
    return passport.started[:16].replace("T", " ")


def changes(before: Run, after: Run, variants: Mapping[str, tuple[Variant, Variant]]) -> Iterator[Change]:
    """All that differs between two runs of one machine; variants are those of implementations in both.

    Seeds and start times are not listed: they differ in every run.
    """
    yield from of_passports(before.passport, after.passport)
    yield from _telemetry(before, after)
    yield from _roof_source(before, after)
    for name, (one, other) in sorted(variants.items()):
        yield from _change(f"source of {name}", one.source_hash[:12], other.source_hash[:12], "code")


def of_passports(a: Passport, b: Passport) -> Iterator[Change]:
    """Versions, then the driver and the card, then softbench and its settings."""
    for name, x, y in comparable.versions(a, b):
        yield Change(name, x, y, _KIND.get(name, "packages"))
    for key, word in _DEVICE.items():
        if key in a.device and key in b.device:
            yield from _change(word, a.device[key], b.device[key], _KIND.get(key, "card"))
    yield from _change("commit of softbench", a.commit or "unknown", b.commit or "unknown", "code")
    yield from _change("profiles", ", ".join(a.profiles), ", ".join(b.profiles))
    for name in sorted({*a.settings, *b.settings}):
        one, other = (run.settings.get(name, "none") for run in (a, b))
        kind = _KIND.get(name, "options") * any(value not in ("none", 0) for value in (one, other))
        yield from _change(name.replace("_", " "), one, other, kind)


def _change(what: str, before: object, after: object, kind: str = "") -> Iterator[Change]:
    if before != after:
        yield Change(what, str(before), str(after), kind)


def _roof_source(before: Run, after: Run) -> Iterator[Change]:
    a, b = ({r.variant.operator: r.variant.source_hash[:12] for r in run.records if r.role == "roof"} for run in (before, after))
    for operator in sorted(a.keys() & b.keys()):
        yield from _change(f"source of the roof of {operator}", a[operator], b[operator], "roof")


def _telemetry(before: Run, after: Run) -> Iterator[Change]:
    """Clocks whose medians differ, and how often the GPU was throttled."""
    states = [[state for record in run.records for state in record.telemetry] for run in (before, after)]
    for word, key in (("SM clock", "sm_clock_mhz"), ("memory clock", "memory_clock_mhz")):
        read = [[value for state in own if (value := getattr(state, key)) is not None] for own in states]
        medians = [statistics.median(values) if values else 0.0 for values in read]
        if all(medians) and abs(medians[0] - medians[1]) > CLOCK_STEP * medians[0]:
            yield Change(f"{word}, MHz", _span(read[0]), _span(read[1]), "clock")
    shares = [sum(bool(state.throttle) for state in own) for own in states]
    if any(shares):
        texts = [f"in {share} of {len(own)} readings" for share, own in zip(shares, states, strict=True)]
        yield from _change("throttled", *texts)


def _span(values: list[int]) -> str:
    return f"{statistics.median(values):.0f} ({min(values)} to {max(values)})"
