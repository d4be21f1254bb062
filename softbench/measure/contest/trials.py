"""Chooses among the variants of one implementation (and among the roof's kernels), by rounds of its own.

The chosen variant then takes part in the contest with fresh samples, so that luck here gains nothing there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby

from softbench.measure.contest.entrant import Ask, Entrant, Fault, possible
from softbench.measure.contest.progress import Tell, silent
from softbench.measure.contest.rounds import turn
from softbench.measure.plans import Plan
from softbench.model import Samples, Status, stats

ROUNDS = 9
GROUP = 8
"""Variants that hold a placement at the same time; of more, the best of each group meet again."""
_WARM_UP_S = 0.3


def choose(
    players: Sequence[Entrant],
    plan: Plan,
    ask: Ask,
    rng: random.Random,
    prepare: Callable[[Sequence[Entrant]], None],
    tell: Tell = silent,
    fault: Fault = possible,
) -> list[Entrant]:
    """The field of the contest: one entrant per implementation, the fastest of its variants in a trial.

    `prepare` makes variants ready again whose process died with another variant. The variants that are not chosen keep their
    samples under the clock "trial" and are settled as PASSED.
    """
    field = []
    for group in _by_implementation(players):
        left = group
        while len(left) > 1:
            tell("choosing", f"the best of {len(left)} {group[0].variant.implementation}")
            parts = [left[i : i + GROUP] for i in range(0, len(left), GROUP)]
            left = [best for part in parts if (best := _best(part, plan, ask, rng, prepare, fault))]
        if len(group) > 1:
            _settle(group, left)
        prepare(left)
        field += left
    return field


def _best(
    part: Sequence[Entrant],
    plan: Plan,
    ask: Ask,
    rng: random.Random,
    prepare: Callable[[Sequence[Entrant]], None],
    fault: Fault,
) -> Entrant | None:
    """The fastest of a few variants; a trial in which one fails, or has impossible times, is repeated without it."""
    while part := [e for e in part if e.is_open]:
        prepare(part)
        part = [e for e in part if e.is_ready]
        turns = _trial(part, plan, ask, rng) if part else {}
        if turns is None:
            turns = _alone(part, plan, ask, rng, prepare)
        if turns:
            for entrant, ns in turns.items():
                own = entrant.plan(plan)
                entrant.samples = [Samples("trial", own.launches, (tuple(ns),), own.cache)]
                if why := fault(entrant.samples):
                    entrant.settle(Status.INCORRECT, why)
            if all(e.is_open for e in turns):
                return min(turns, key=lambda e: stats.per_launch_ns(e.samples[0]))
    return None


def _alone(
    part: Sequence[Entrant], plan: Plan, ask: Ask, rng: random.Random, prepare: Callable[[Sequence[Entrant]], None]
) -> dict[Entrant, list[int]]:
    """A trial per variant, when the GPU has no room for all of them at the same time."""
    turns: dict[Entrant, list[int]] = {}
    for entrant in part:
        prepare([entrant])
        if entrant.is_ready:
            turns |= _trial([entrant], plan, ask, rng) or {}
    return turns


def _trial(part: Sequence[Entrant], plan: Plan, ask: Ask, rng: random.Random) -> dict[Entrant, list[int]] | None:
    """Shuffled rounds of all variants on one placement each; empty if one of them failed, None if not all fit.

    The GPU is warmed up first: what ran first after a pause once looked 2 % slow, and the wrong kernel won.
    """
    turns: dict[Entrant, list[int]] = {e: [] for e in part}
    for entrant in part:
        request = entrant.request("place", plan=asdict(entrant.plan(plan)), seed=rng.getrandbits(40))
        answer = ask({entrant: request})[entrant]
        if len(part) > 1 and answer.status is Status.OUT_OF_MEMORY and not answer.fatal:
            ask({entrant: entrant.request("release")})
            return None
        if not entrant.take(answer):
            return {}
    warm_until = time.monotonic() + _WARM_UP_S
    while any(len(times) < ROUNDS for times in turns.values()):
        for entrant in rng.sample(list(part), len(part)):
            ns = turn(entrant, ask)
            if not entrant.is_open:
                return {}
            if time.monotonic() > warm_until:
                turns[entrant].append(ns)
    ask({part[0]: part[0].request("release")})
    return turns


def _settle(group: Sequence[Entrant], left: Sequence[Entrant]) -> None:
    for entrant in group:
        entrant.best_of, entrant.is_best = len(group), entrant in left
        if entrant.is_open and not entrant.is_best:
            entrant.settle(Status.PASSED, "")
            entrant.notes.append(f"not the fastest of {len(group)} variants in the trial: {left[0].variant.id} was")
        elif entrant.is_best:
            entrant.samples = []


def _by_implementation(players: Sequence[Entrant]) -> list[list[Entrant]]:
    def key(entrant: Entrant) -> tuple[str, str, str]:
        return (entrant.role, entrant.variant.path, entrant.variant.implementation)

    return [list(group) for _, group in groupby(sorted(players, key=key), key=key)]
