"""How far a time is believed, from all runs; docs/commands.md, "Site", has the words.

A run that was sent can name any tier. A time from before there were tiers is open.
"""

from collections.abc import Iterator, Sequence

from softbench.analysis.ledger import Entry, Kept, move
from softbench.model import OPEN, SEALED, stats
from softbench.records import comparable

REPRODUCED, CLAIMED = "reproduced", "claimed"
WORDS = (REPRODUCED, SEALED, OPEN, CLAIMED)
RECORDS = (REPRODUCED, SEALED)
"""Those that make a record."""
WIDEST = 0.05
"""Half of the widest interval that says anything: one without a bound would agree with every time."""


def judge(runs: Sequence[Kept]) -> None:
    """Write the belief of each entry with a time."""
    groups: dict[tuple[object, ...], list[Entry]] = {}
    for run in runs:
        machine = comparable.machine(run.passport)
        for entry in run.entries:
            entry.belief = CLAIMED if run.sent else entry.tier or OPEN if entry.ns else ""
            if entry.percent and entry.card and entry.half <= WIDEST:
                key = (machine, entry.id, entry.implementation, entry.source, entry.operator_hash, entry.ideal_bytes, entry.warm)
                groups.setdefault(key, []).append(entry)
    for own in groups.values():
        ordered = sorted(own, key=lambda entry: entry.percent)
        for a, b in (*_neighbours(ordered), *_neighbours(ordered[::-1])):
            if agree(a, b):
                a.belief = b.belief = REPRODUCED


def agree(a: Entry, b: Entry) -> bool:
    """Whether two times over the roof's are one: nothing is between them, or less than makes a tie."""
    if abs(a.percent / b.percent - 1) <= stats.TIE_HALF_WIDTH:
        return True
    found = move(a, b)
    return found is not None and found.verdict in ("same", "cannot tell")


def _neighbours(ordered: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Each entry with the nearest one before it that is of another card."""
    last = other = None
    for entry in ordered:
        near = last if last is not None and last.card != entry.card else other
        if near is not None:
            yield near, entry
        other, last = near, entry
