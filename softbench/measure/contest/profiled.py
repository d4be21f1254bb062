"""The device clock of a case: each entrant once more, in a process of its own that is profiled and never timed."""

import random
from collections.abc import Sequence
from dataclasses import asdict

from softbench.measure.contest.entrant import Ask, Entrant
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.plans import Plan
from softbench.model import SEALED, Case, Samples

CLOCK = "device"


def measure(
    case: Case, players: Sequence[Entrant], plan: Plan, l2_bytes: int, pool: WorkerPool, ask: Ask, rng: random.Random
) -> None:
    """Add samples of the device clock to players, one after the other, or a note that says why there are none."""
    twins = {Entrant(e.variant, e.role, e.slot, CLOCK, tier=e.tier, handed_over=e.handed_over, digest=e.digest): e for e in players}
    pool.assign(list(twins))
    seed = rng.getrandbits(40)
    assigned = [twin for twin in twins if twin.is_open]
    requests = {
        t: t.request("take" if t.tier == SEALED else "prepare", case=case, seed=seed, is_checked=True, **t.sealed_file())
        for t in assigned
    }
    for twin, answer in ask(requests).items():
        twin.take(answer)
    for twin, entrant in twins.items():
        why = twin.reason
        if twin.is_open:
            answer = twin.answer(ask, CLOCK, plan=asdict(plan), seed=rng.getrandbits(40), l2_bytes=l2_bytes)
            why = answer.reason or answer.data.get("unseen", "")
            if groups := answer.data.get(CLOCK):
                entrant.samples.append(Samples(CLOCK, 1, groups, "cold"))
        if why:
            entrant.notes.append(f"no device clock: {why}")
