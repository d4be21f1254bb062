"""Who runs beside whom, by bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

RESERVE = 0.08
"""Share of the free memory that stays free: workspaces, fragmentation, the drivers of late-comers."""


def heats(always: Sequence[T], others: Sequence[T], bytes_each: int, free_bytes: int) -> list[list[T]]:
    """Split entrants into heats that fit the memory; `always` (roof, baseline) takes part in every heat.

    bytes_each covers two placements of one entrant: a new one is allocated while the old one is still held. A heat has
    at least one of `others`, even where it may not fit: only a trial shows that.
    """
    if not others:
        return [list(always)] if always else []
    room = int(free_bytes * (1 - RESERVE)) // max(1, bytes_each) if free_bytes else len(always) + len(others)
    size = max(1, room - len(always))
    return parts(always, others, -(-len(others) // size))


def parts(always: Sequence[T], others: Sequence[T], count: int) -> list[list[T]]:
    """Up to `count` heats as even in size as can be, `always` in each."""
    even = -(-len(others) // count)
    return [[*always, *others[i : i + even]] for i in range(0, len(others), even)]
