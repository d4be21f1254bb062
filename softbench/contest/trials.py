"""The choice among the variants of one implementation (and among the roof's kernels), on rounds of its own.

The chosen variant then takes part in the contest with fresh samples, so that having been lucky here gains nothing there.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby

from softbench.clocks import Plan
from softbench.contest.entrant import Entrant
from softbench.contest.workers import Answer
from softbench.model import Samples, Status

TURNS = 8
_WARM_TURNS = 2

Ask = Callable[[dict[Entrant, dict[str, object]]], dict[Entrant, Answer]]


def choose(
    players: Sequence[Entrant], plan: Plan, ask: Ask, rng: random.Random, prepare: Callable[[Sequence[Entrant]], None]
) -> list[Entrant]:
    """The field of the contest: one entrant an implementation, the fastest of its variants in a trial.

    `prepare` makes variants ready again whose process died with a sibling. The variants that were not chosen keep
    their trial samples under the clock "trial" and are settled as PASSED.
    """
    field = []
    for group in _by_implementation(players):
        if len(group) == 1:
            field += group
            continue
        medians: dict[Entrant, float] = {}
        for entrant in group:
            prepare([entrant])
            if entrant.is_ready and (turns := _trial(entrant, plan, ask, rng)):
                entrant.samples = [Samples("trial", plan.launches, (tuple(turns),), plan.cache)]
                medians[entrant] = statistics.median(turns)
        field += _settle(group, medians)
        prepare(field)
    return field


def _settle(group: Sequence[Entrant], medians: dict[Entrant, float]) -> list[Entrant]:
    if not medians:
        return []
    best = min(medians, key=lambda e: medians[e])
    for entrant in group:
        entrant.best_of, entrant.is_best = len(group), entrant is best
        if entrant.is_open and entrant is not best:
            entrant.settle(Status.PASSED, "")
            entrant.notes.append(f"not the fastest of {len(group)} variants in the trial: {best.variant.id} was")
    best.samples = []
    return [best]


def _trial(entrant: Entrant, plan: Plan, ask: Ask, rng: random.Random) -> list[int]:
    """Samples of a few turns on one placement; empty when the entrant failed."""
    requests: list[dict[str, object]] = [entrant.request("place", plan=asdict(plan), seed=rng.getrandbits(40))]
    requests += [entrant.request("turn")] * (_WARM_TURNS + TURNS)
    requests.append(entrant.request("release"))
    turns = []
    for request in requests:
        answer = ask({entrant: request})[entrant]
        if not entrant.take(answer):
            return []
        if request["op"] == "turn":
            turns.append(int(answer.data["ns"]))
    return turns[_WARM_TURNS:]


def _by_implementation(players: Sequence[Entrant]) -> list[list[Entrant]]:
    def key(entrant: Entrant) -> tuple[str, str, str]:
        return (entrant.role, entrant.variant.path, entrant.variant.implementation)

    return [list(group) for _, group in groupby(sorted(players, key=key), key=key)]
