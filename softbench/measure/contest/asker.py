"""Asks several entrants at once, and those that share a worker one after the other."""

from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.contest.workers import Answer, gather
from softbench.model import Status


class Asker:
    def __init__(self, pool: WorkerPool, timeout_s: float) -> None:
        self._pool, self._timeout_s = pool, timeout_s

    def __call__(self, requests: dict[Entrant, dict[str, object]]) -> dict[Entrant, Answer]:
        answers: dict[Entrant, Answer] = {}
        waiting = dict(requests)
        while waiting:
            wave = {e.worker: e for e in reversed(waiting) if e.worker is not None and e.worker.is_alive}
            if not wave:
                gone = Answer(False, status=Status.CRASHED, reason="its worker died with another variant", fatal=True)
                return answers | dict.fromkeys(waiting, gone)
            for worker, answer in gather({w: waiting[e] for w, e in wave.items()}, self._timeout_s).items():
                entrant = wave[worker]
                self._pool.note(entrant, answer)
                answers[entrant] = answer
                del waiting[entrant]
        return answers
