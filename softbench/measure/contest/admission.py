"""Which entrants run together: heats that fit the memory, and what happens to entrants that run out of it."""

import random
import sys
from collections.abc import Sequence
from typing import TypeVar

from softbench.measure.contest.entrant import Ask, Entrant
from softbench.measure.contest.rounds import Heat
from softbench.measure.plans import Plan
from softbench.model import Status

T = TypeVar("T")

RESERVE = 0.08
"""Share of the free memory that stays free: for workspaces, fragmentation, and contexts of workers that start later."""


def room(bytes_each: int, free_bytes: int) -> int:
    """How many placements of this size fit the memory. If free_bytes is 0, as on a CPU, all do."""
    return int(free_bytes * (1 - RESERVE)) // max(1, bytes_each) if free_bytes else sys.maxsize


def heats(always: Sequence[T], others: Sequence[T], most: int) -> list[list[T]]:
    """Split entrants into heats for which `most` placements have room; `always` (roof, baseline) takes part in every heat.

    One has two: a new one is made while the old one is still held. A heat has at least one of `others`, even if it may not fit:
    only a trial shows that.
    """
    if not others:
        return [list(always)] if always else []
    size = max(1, min(len(others), most - 1 - len(always)))
    return parts(always, others, -(-len(others) // size))


def parts(always: Sequence[T], others: Sequence[T], count: int) -> list[list[T]]:
    """Up to `count` heats as even in size as can be, `always` in each."""
    even = -(-len(others) // count)
    return [[*always, *others[i : i + even]] for i in range(0, len(others), even)]


def once_more(heat: Heat, always: Sequence[Entrant], plan: Plan, ask: Ask, rng: random.Random) -> list[list[Entrant]]:
    """Heats for the entrants that ran out of memory in this one: each is tried once more with the GPU to itself.

    If one of them is the roof or the reference, nothing links the heat to others: all of it is measured again, in halves.
    """
    contenders = [e for e in heat.entrants if e not in always]
    if len(contenders) > 1 and any(e in heat.out_of_memory for e in always):
        for entrant in heat.entrants:
            entrant.leave(heat.number)
        heat.is_unfinished = False
        return parts(always, contenders, 2)
    groups = []
    for entrant in heat.out_of_memory:
        if len(heat.entrants) > 1 and _fits_alone(entrant, plan, ask, rng):
            groups.append([*(e for e in always if e is not entrant), entrant])
        elif entrant.is_open:
            entrant.settle(Status.OUT_OF_MEMORY, f"{plan.launches} captured launches do not fit, even alone on the card")
    return groups


def _fits_alone(entrant: Entrant, plan: Plan, ask: Ask, rng: random.Random) -> bool:
    answer = ask({entrant: entrant.placing(plan, rng)})[entrant]
    entrant.answer(ask, "release")
    if not answer.ok and answer.status is not Status.OUT_OF_MEMORY:
        entrant.take(answer)
    return answer.ok
