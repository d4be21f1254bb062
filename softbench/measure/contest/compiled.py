"""Registers, stack and shared memory of entrants on a GPU, from cubins that separate processes build."""

from collections.abc import Sequence

from softbench.measure.contest.entrant import Ask, Entrant
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.model import Case

MODE = "compile"


def read(case: Case, players: Sequence[Entrant], pool: WorkerPool, ask: Ask) -> None:
    """Add the kernels of players that yield cubins, built in parallel, or a note that says why there are none."""
    twins = {Entrant(e.variant, e.role, e.slot, mode=MODE): e for e in players if e.variant.has_cubins and not e.kernels}
    pool.assign(list(twins))
    assigned = [twin for twin in twins if twin.is_open]
    for twin, answer in ask({twin: twin.request(MODE, case=case) for twin in assigned}).items():
        if twin.take_kernels(answer):
            twins[twin].kernels = twin.kernels
    for twin, entrant in twins.items():
        if twin.reason:
            entrant.notes.append(f"no registers: {twin.reason}")
