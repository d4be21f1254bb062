"""The workers of a run: one per version of an implementation and mode, started when needed, after deaths at last given up."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from softbench.measure import cores
from softbench.measure.contest import descriptors
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.processes import ONE_COMPILER, Forkserver, ForkserverError, Worker, environment_for
from softbench.measure.contest.workers import Answer, ask, gather
from softbench.measure.worker.serving import REFEREE
from softbench.measure.worker.wire import Message
from softbench.model import SEALED, Case, Status
from softbench.texts import InputError

MAX_DEATHS = 3
"""An implementation whose process dies this often in a row is not started again in this run."""
_HELLO_TIMEOUT_S = 90.0

Key = tuple[str, str, str, str]
"""Path, implementation, mode, source hash."""
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Otherwise waiting threads of one entrant spin for milliseconds into the next entrant's turn."""
_TRITON_KEY = "triton.runtime.cache:triton_key"
"""The key of Triton's caches, for which each worker would read 0.5 GB: once for all beside the calibration."""
_SHARED = "torch._dynamo"
"""What several libraries import, in 1.5 s, or 3 s if all do at the same time: likewise, in a run of many."""


class DeviceLost(InputError):
    """No process can use the GPU any more: it fell off the bus, or another process has filled its memory."""


class WorkerPool:
    """Owns the forkservers and every worker; `close` ends them all."""

    def __init__(
        self, device_kind: str, forkserver: Callable[[], Forkserver] | None = None, threads: int = 0, *, serves_many: bool = False
    ) -> None:
        """threads is their number in timed cases on a CPU; 0: as `softbench.measure.cores.threads` chooses."""
        self.device = device_kind
        self._own, self._threads, self._serves_many = forkserver, threads, serves_many
        self._environment: dict[str, str] = {}
        self._has_started = False
        self._forkservers: dict[str, Forkserver] = {}
        """By their python, "" for this one's."""
        self._workers: dict[Key, Worker] = {}
        self._deaths: Counter[Key] = Counter()
        self._last: dict[Key, str] = {}

    def start(self) -> None:
        """Let the forkserver import torch while this process does something else. Raises OSError."""
        self._forkserver()

    def _forkserver(self, python: str = "") -> Forkserver:
        if python not in self._forkservers:
            self._forkservers[python] = self._own() if self._own and not python else self._made(python)
        return self._forkservers[python]

    def _made(self, python: str) -> Forkserver:
        if self.device != "cuda":
            return Forkserver(["torch"], _PASSIVE | cores.pinning(self._threads) | self._environment, python=python)
        one_compiler = {k: v for k, v in ONE_COMPILER.items() if k not in os.environ}
        later = [_TRITON_KEY, *([_SHARED] if self._serves_many else [])]
        return Forkserver(["torch", "triton"], one_compiler | self._environment, later, python)

    def assign(self, entrants: Sequence[Entrant]) -> None:
        """Give every open entrant a living worker; missing ones are started in parallel."""
        if not all(forkserver.is_alive for forkserver in self._forkservers.values()):
            self.close()  # its workers died with it, which is no entrant's fault
        missing = {key for e in entrants if (key := self._key(e)) not in self._workers or not self._workers[key].is_alive}
        descriptors.make_room(len(missing))
        fresh: dict[Worker, Key] = {}
        for entrant in entrants:
            key = self._key(entrant)
            worker = self._workers.get(key)
            self._end_versions_but(key)
            if worker is None or not worker.is_alive:
                worker = self._start(key, entrant)
                if worker is None:
                    continue
                fresh[worker] = key
            entrant.worker = worker
        answers = gather({w: self._hello(key) for w, key in fresh.items()}, _HELLO_TIMEOUT_S)
        failed = {worker: answer for worker, answer in answers.items() if not answer.ok}
        if not self._has_started and any(worker.is_isolated for worker in failed) and not self._environment:
            self.close()  # the driver may start outside a namespace; no implementation was imported yet
            self._environment["SOFTBENCH_NAMESPACES"] = "off"
            return self.assign(entrants)
        self._has_started |= any(answer.ok for answer in answers.values())
        for entrant in entrants:
            if entrant.worker in failed and entrant.is_open:
                entrant.take(failed[entrant.worker])
        for worker, answer in failed.items():
            self._count(fresh[worker], answer)  # one death, however many variants the process was for

    def match(self, entrants: Sequence[Entrant]) -> None:
        """Give a new referee to each author that has come since: addresses of the one before may be in use there."""
        for entrant in (e for e in entrants if e.tier == SEALED and e.is_open):
            if entrant.worker is not None and entrant.worker.author not in (None, entrant.author):
                entrant.worker.end()
                self.assign([entrant])
            if entrant.worker is not None:
                entrant.worker.author = entrant.author

    def referees_ahead(self, entrants: Sequence[Entrant], case: Case) -> dict[Worker, Message]:
        """Referees that these entrants will need, and what to ask them, so that they get ready beside their authors."""
        asked = {}
        for entrant in entrants:
            key = self._key(replace(entrant, tier=SEALED))
            if key in self._workers and self._workers[key].is_alive:
                continue
            descriptors.make_room(1)
            worker = self._start(key, replace(entrant))
            if worker is not None:
                asked[worker] = entrant.request("hello", case) | self._hello(key)
        return asked

    def note(self, entrant: Entrant, answer: Answer) -> None:
        """Count deaths in a row; a good answer resets the count."""
        self._count(self._key(entrant), answer)

    def _count(self, key: Key, answer: Answer) -> None:
        if answer.ok:
            self._deaths[key] = 0
        elif answer.fatal:
            self._deaths[key] += 1
            self._last[key] = answer.reason

    def _hello(self, key: Key) -> Message:
        is_here = key[2].removeprefix(f"{REFEREE}-") in ("measure", "device")
        return {"op": "hello", "device": self.device if is_here else "cpu", "role": key[2]}

    @property
    def living(self) -> list[Worker]:
        return [w for w in self._workers.values() if w.is_alive]

    def owns(self, pids: Collection[int]) -> bool:
        """Whether one of these is a process of this pool."""
        return bool(pids) and any(not own.tree.isdisjoint(pids) for own in self._forkservers.values())

    def everyone(self, operation: str, timeout_s: float = 60.0) -> None:
        """Send one request to all living workers, and end those that fail."""
        for worker, answer in gather({w: {"op": operation} for w in self.living}, timeout_s).items():
            if not answer.ok and worker.is_alive:
                worker.end()

    def free_bytes(self, entrants: Sequence[Entrant]) -> int | None:
        """Free memory of the device, from the first living worker that answers; 0 on a CPU, None if none answers."""
        for entrant in entrants:
            if entrant.worker is not None and entrant.worker.is_alive:
                answer = ask(entrant.worker, {"op": "hello"}, _HELLO_TIMEOUT_S)
                if answer.ok:
                    return int(answer.data.get("free_bytes", 0))
        return None

    def refused(self) -> str:
        """Why a fresh process, which has imported no implementation, cannot use the device; "" if it can.

        One that dies may have been killed, as those before it; then a second one is asked.
        """
        for _ in range(2):
            answer = self.apart({"op": "hello", "device": self.device}, timeout_s=_HELLO_TIMEOUT_S)
            if answer is None or answer.status is not Status.CRASHED:
                break
        return answer.reason if answer is not None and not answer.ok else ""

    def apart(self, *requests: Message, timeout_s: float) -> Answer | None:
        """What a fresh process answers to the first request that fails, or to the last; None if no process can be started."""
        try:
            if not self._forkserver().is_alive:
                self.close()
            worker = Worker(self._forkserver(), environment_for("measure"))
        except ForkserverError:
            return None
        answer = None
        for request in requests:
            answer = ask(worker, request, timeout_s)
            if not answer.ok:
                break
        worker.end()
        return answer

    def dismiss(self) -> None:
        """Begin to `close`."""
        for forkserver in self._forkservers.values():
            forkserver.dismiss()

    def close(self) -> None:
        for forkserver in self._forkservers.values():
            forkserver.close()
        self._forkservers.clear()
        for worker in self.living:
            worker.end(kill=False)
        self._workers.clear()

    def _end_versions_but(self, key: Key) -> None:
        """End the workers of other versions: a file may be saved while a run is watched."""
        for other in [known for known in self._workers if known[:3] == key[:3] and known != key]:
            self._workers.pop(other).end()

    def _start(self, key: Key, entrant: Entrant) -> Worker | None:
        if self._deaths[key] >= MAX_DEATHS:
            reason = f"not started again after its process died {MAX_DEATHS} times in a row; the last time: {self._last[key]}"
            entrant.settle(Status.CRASHED, reason)
            return None
        try:
            # A referee, which imports no implementation, is always of this environment.
            python = "" if key[2].startswith(REFEREE) else entrant.variant.interpreter
            worker = Worker(self._forkserver(python), environment_for(key[2]))
        except ForkserverError as error:
            entrant.settle(Status.CRASHED, str(error))
            entrant.is_lost = self._has_started
            return None
        self._workers[key] = worker
        return worker

    @staticmethod
    def _key(entrant: Entrant) -> Key:
        variant = entrant.variant
        mode = f"{REFEREE}-{entrant.mode}" if entrant.tier == SEALED else entrant.mode
        return (variant.path, variant.implementation, mode, variant.source_hash)


@contextmanager
def authors_stopped(entrants: Sequence[Entrant]) -> Iterator[None]:
    """Stop the processes of authors that judge nothing themselves while these entrants are timed."""
    judges = {e.worker for e in entrants}
    authors = {e.author for e in entrants if e.author is not None and e.tier == SEALED} - judges
    try:
        for author in authors:
            author.signal(signal.SIGSTOP)
        yield
    finally:
        for author in authors:
            author.signal(signal.SIGCONT)
