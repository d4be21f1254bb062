"""Imports, builds and checks every entrant in its own worker, before anything is timed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from softbench.cases import operators
from softbench.measure.contest.entrant import Entrant, Tell, silent
from softbench.measure.contest.processes import Worker
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.contest.workers import Answer, ask, gather
from softbench.measure.plans import Plan
from softbench.model import OPEN, SEALED, Case, Status

_ROOM = 0.8
"""Share of a GPU's memory that those have who build and check at the same time; each has two processes, with contexts."""
_APART = 1 << 41
"""Between the seeds of an author's inputs and of those that are judged."""


@dataclass
class Preparation:
    """Prepares entrants in parallel, as many as the GPU's memory holds; one at a time if the case is only checked.

    memory_bytes is the GPU's; 0 on a CPU.
    """

    case: Case
    pool: WorkerPool
    timeout_s: float
    seed: int
    tell: Tell = silent
    plan: Callable[[], Plan | None] = lambda: None
    memory_bytes: int = 0
    _field: Sequence[Entrant] = ()
    _is_again: bool = False

    def run(self, entrants: Sequence[Entrant]) -> None:
        """Close the cells of entrants that fail; the others are ready afterwards.

        A death costs only its own variant: other variants in the same process are prepared again in a new one. Every pass of
        the loop closes a cell, makes one ready, or finds its tier, so it ends.
        """
        self._field = entrants
        while waiting := [e for e in entrants if e.is_open and not e.is_ready and e.mode != "compile"]:
            self.pool.assign(waiting)
            self.pool.match(waiting)
            wave = {e.worker: e for e in reversed(waiting) if e.is_open and e.worker is not None}
            for entrant, answer in self._ask(dict(list(wave.items())[-self._at_once() :])).items():
                self._advance(entrant, answer)
        for entrant in entrants:
            if entrant.is_open and entrant.mode != "measure":
                self._without_gpu(entrant)

    def _at_once(self) -> int:
        """How many may build and check at the same time.

        One takes the memory of the timed launches, and of four calls for the checks.
        """
        if not self.case.timed:
            return 1
        plan, moved = self.plan(), operators.moved_bytes(self.case)
        if plan is None or not self.memory_bytes:
            return len(self._field)
        held = plan.bytes_held(*moved, operators.over_bytes(self.case))
        return max(1, int(_ROOM * self.memory_bytes / (held + 4 * sum(moved))))

    def again(self, entrants: Sequence[Entrant]) -> None:
        """Build entrants once more whose launches were dropped; they are not checked a second time."""
        self._is_again = True
        for entrant in entrants:
            entrant.tier = "" if entrant.tier == SEALED else entrant.tier
        self.run(entrants)

    def _advance(self, entrant: Entrant, answer: Answer) -> None:
        """From a launch to a hand-over, from there to a referee's copy; or back to the author, if the copy is not right."""
        entrant.seconds += answer.seconds
        if self._is_sealable(entrant) and not entrant.tier:
            if entrant.take(answer):
                entrant.hand_over(answer.data)
        elif self._is_ended_from_outside(entrant):
            entrant.tier, entrant.has_lost_referee = "", True  # handed over again, once: its author may be gone as well
        elif entrant.tier == SEALED and not answer.ok and answer.status is not Status.OUT_OF_MEMORY:
            entrant.tier, entrant.open_because = OPEN, f"its sealed copy failed: {answer.reason}"
        elif entrant.take(answer):
            entrant.prepared_in = entrant.worker
            entrant.kernels, entrant.digest = list(answer.data.get("kernels", ())), answer.data.get("digest", "")
            if not self._is_again:
                entrant.accuracy = answer.data.get("accuracy")
                entrant.notes.append(f"built and checked in {entrant.seconds:.1f} s")

    @staticmethod
    def _is_ended_from_outside(entrant: Entrant) -> bool:
        worker = entrant.worker
        is_ended = worker is not None and (worker.was_killed or worker.is_lost)
        return is_ended and entrant.tier == SEALED and not entrant.has_lost_referee

    def _is_sealable(self, entrant: Entrant) -> bool:
        """Whether a hand-over is tried: the roof's kernels are the harness's own."""
        return self.pool.device == "cuda" and entrant.mode == "measure" and entrant.role != "roof"

    def _ask(self, wave: dict[Worker, Entrant]) -> dict[Entrant, Answer]:
        """Answers to the entrants' requests. What an author hands over goes to its referee at once, whose answer then counts."""
        requests = {w: self._request(e) for w, e in wave.items()}
        building = [e for e in wave.values() if self._is_sealable(e) and not e.tier]
        ahead = self.pool.referees_ahead(building, self.case)

        referees: set[Worker | None] = set()

        def then(worker: Worker, answer: Answer) -> dict[Worker, dict[str, Any]]:
            entrant = wave.get(worker)
            if entrant not in building or not answer.ok:
                return {}
            self.pool.note(entrant, answer)
            self._advance(entrant, answer)
            if entrant.tier == SEALED:
                self.pool.assign([entrant])
                self.pool.match([entrant])
            if entrant.tier != SEALED or not entrant.is_open or entrant.worker is None:
                return {}
            referees.add(entrant.worker)
            return {entrant.worker: self._request(entrant)}

        found = gather(requests | ahead, self.timeout_s, self._say, then)
        for worker in ahead.keys() - referees:
            if not found[worker].ok and worker.is_alive:
                worker.end()
        answers = {
            e: found[e.worker]
            for w, e in wave.items()
            if e.worker is not None and (e.worker in referees or e not in building or not found[w].ok)
        }
        for entrant, answer in answers.items():
            if answer.lacks_memory:
                answers[entrant] = self._alone(entrant)
            self.pool.note(entrant, answers[entrant])
        return answers

    def _request(self, entrant: Entrant) -> dict[str, Any]:
        common: dict[str, Any] = {"case": self.case, "seed": self.seed, "is_checked": self._is_again}
        if not self._is_sealable(entrant) or entrant.tier == OPEN:
            return entrant.request("prepare", **common)
        if entrant.tier == SEALED:
            return entrant.request("take", handed_over=entrant.handed_over, **common)
        plan = self.plan()
        return entrant.request("author", case=self.case, seed=self.seed + _APART, plan=plan and asdict(plan))

    def _say(self, answered: int) -> None:
        done = sum(e.is_ready or not e.is_open for e in self._field)
        self.tell("compiling and checking", f"{done + answered} of {len(self._field)}")

    def _alone(self, entrant: Entrant) -> Answer:
        """Out of memory counts only without buffers of others on the GPU.

        An author starts again: torch aborted at the first launch behind a capture that had lacked memory.
        """
        self.pool.everyone("release", self.timeout_s)
        if self._is_sealable(entrant) and not entrant.tier and entrant.worker is not None:
            entrant.worker.end()
            self.pool.assign([entrant])
        if entrant.worker is None or not entrant.worker.is_alive:
            return Answer(False, status=Status.OUT_OF_MEMORY, reason="out of memory, and its process died of it", fatal=True)
        return ask(entrant.worker, self._request(entrant), self.timeout_s)

    def _without_gpu(self, entrant: Entrant) -> None:
        """Settle as CHECKED in the interpreter or COMPILED for sm_90a, which is all that a machine without a GPU can do."""
        checked = entrant.mode == "interpret"
        if entrant.variant.has_cubins and not self._compile(entrant):
            return
        registers = max((k.registers for k in entrant.kernels), default=0)
        stack = max((k.stack_bytes for k in entrant.kernels), default=0)
        built = f"built for sm_90a: {registers} registers, {stack} bytes of stack" if entrant.kernels else ""
        if checked:
            parts = ["right in Triton's interpreter", built, "not timed: no CUDA GPU here"]
            entrant.settle(Status.CHECKED, "; ".join(part for part in parts if part))
        else:
            entrant.settle(Status.COMPILED, f"{built}; neither run nor timed: no CUDA GPU here")

    def _compile(self, entrant: Entrant) -> bool:
        entrant.mode = "compile"
        self.pool.assign([entrant])
        if not entrant.is_open or entrant.worker is None:
            return False
        request = entrant.request("compile", case=self.case)
        answer = gather({entrant.worker: request}, self.timeout_s, self._say)[entrant.worker]
        self.pool.note(entrant, answer)
        return entrant.take_kernels(answer)
