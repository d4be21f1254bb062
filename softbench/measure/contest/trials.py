"""Chooses among the variants of one implementation (and among the roof's kernels), by rounds of its own.

The chosen variant then takes part in the contest with fresh samples, so that luck here gains nothing there.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from softbench.measure.contest.entrant import Ask, Entrant, Fault, Tell, silent
from softbench.measure.contest.turns import turn
from softbench.measure.plans import Plan
from softbench.model import SEALED, Samples, Status, stats

ROUNDS = 5
GROUP = 8
"""Variants that hold a placement at the same time; of more, the best of each group meet again."""
_WARM_UP_S = 0.02


@dataclass(frozen=True)
class Trials:
    """prepare makes variants ready again whose process died with another variant."""

    plan: Plan
    ask: Ask
    rng: random.Random
    prepare: Callable[[Sequence[Entrant]], None]
    tell: Tell = silent
    fault: Fault = lambda samples: ""

    def choose(self, players: Sequence[Entrant]) -> list[Entrant]:
        """The field of the contest: one entrant per implementation, the fastest of its variants in a trial.

        Of variants some of which are sealed, the fastest sealed one.
        The variants that are not chosen keep their samples under the clock "trial" and are settled as PASSED.
        """
        field = []
        for group in _by_implementation(players):
            left = group
            while len(left) > 1:
                self.tell("choosing", f"the best of {len(left)} {group[0].variant.implementation}")
                parts = [left[i : i + GROUP] for i in range(0, len(left), GROUP)]
                left = [best for part in parts if (best := self._best(part))]
            if len(group) > 1:
                _settle(group, left)
            self.prepare(left)
            field += left
        return field

    def _best(self, part: Sequence[Entrant]) -> Entrant | None:
        """The best of a few variants; a trial in which one fails, or has impossible times, is repeated without it."""
        while part := [e for e in part if e.is_open]:
            self.prepare(part)
            part = [e for e in part if e.is_ready]
            turns = self._trial(part) if part else {}
            if turns is None:
                turns = self._alone(part)
            if turns:
                for entrant, ns in turns.items():
                    own = entrant.plan(self.plan)
                    entrant.samples = [Samples("trial", own.launches, (tuple(ns),), own.cache)]
                    if why := self.fault(entrant.samples):
                        entrant.settle(Status.INCORRECT, why)
                if all(e.is_open for e in turns):
                    return min(turns, key=lambda e: (_is_behind(e), stats.per_launch_ns(e.samples[0])))
        return None

    def _alone(self, part: Sequence[Entrant]) -> dict[Entrant, list[int]]:
        """A trial per variant, when the GPU has no room for all of them at the same time."""
        turns: dict[Entrant, list[int]] = {}
        for entrant in part:
            self.prepare([entrant])
            if entrant.is_ready:
                turns |= self._trial([entrant]) or {}
        return turns

    def _trial(self, part: Sequence[Entrant]) -> dict[Entrant, list[int]] | None:
        """Shuffled rounds of all variants on one placement each; empty if one of them failed, None if not all fit.

        The GPU is warmed up first: what ran first after a pause once looked 2 % slow, and the wrong kernel won.
        """
        turns: dict[Entrant, list[int]] = {e: [] for e in part}
        for entrant in part:
            answer = self.ask({entrant: entrant.placing(self.plan, self.rng)})[entrant]
            if len(part) > 1 and answer.lacks_memory:
                entrant.answer(self.ask, "release")
                return None
            if not entrant.take(answer):
                return {}
        warm_until = time.monotonic() + _WARM_UP_S
        while any(len(times) < ROUNDS for times in turns.values()):
            for entrant in self.rng.sample(list(part), len(part)):
                ns = turn(entrant, self.ask)
                if not entrant.is_open:
                    return {}
                if time.monotonic() > warm_until:
                    turns[entrant].append(ns)
        part[0].answer(self.ask, "release")
        return turns


def _is_behind(entrant: Entrant) -> bool:
    """Whether a sealed variant is chosen before this one, however fast it is: its own process may have changed the time."""
    return entrant.role != "roof" and entrant.tier != SEALED


def _settle(group: Sequence[Entrant], left: Sequence[Entrant]) -> None:
    for entrant in group:
        entrant.best_of, entrant.is_best = len(group), entrant in left
        if entrant.is_open and not entrant.is_best:
            entrant.settle(Status.PASSED, "")
            entrant.notes.append(_why_not(entrant, left[0], len(group)))
        elif entrant.is_best:
            entrant.samples = []


def _why_not(entrant: Entrant, chosen: Entrant, count: int) -> str:
    if _is_behind(entrant) > _is_behind(chosen):
        return f"open, so the sealed {chosen.variant.id} was chosen of {count} variants in the trial"
    return f"not the fastest of {count} variants in the trial: {chosen.variant.id} was"


def _by_implementation(players: Sequence[Entrant]) -> list[list[Entrant]]:
    def key(entrant: Entrant) -> tuple[str, str, str]:
        return (entrant.role, entrant.variant.path, entrant.variant.implementation)

    return [list(group) for _, group in groupby(sorted(players, key=key), key=key)]
