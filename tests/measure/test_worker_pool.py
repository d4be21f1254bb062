"""How deaths are counted when one process serves several variants."""

from dataclasses import replace

import pytest
from support.builders import variant
from support.simulated import DEAD

from softbench.measure.contest import worker_pool as pool_module
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.worker_pool import MAX_DEATHS, WorkerPool
from softbench.measure.contest.workers import Answer
from softbench.model import SEALED, Status


class Process:
    is_isolated = False

    def __init__(self, is_alive=True, free_bytes=0):
        self.is_alive, self.free_bytes = is_alive, free_bytes

    def close(self): ...

    def end(self):
        self.is_alive = False


@pytest.fixture
def answering(monkeypatch):
    monkeypatch.setattr(pool_module, "gather", lambda requests, timeout_s: dict.fromkeys(requests, Answer(True)))


def test_a_death_at_the_start_counts_once_for_all_variants(monkeypatch):
    started = []
    monkeypatch.setattr(pool_module, "gather", lambda requests, timeout_s: dict.fromkeys(requests, DEAD))
    pool = WorkerPool("cpu", forkserver=Process)

    def hire():
        entrants = [Entrant(variant("many", params=(("k", k),)), "entrant", slot=k) for k in range(MAX_DEATHS + 1)]
        shared = Process()
        monkeypatch.setattr(pool_module, "Worker", lambda *_: started.append(shared) or shared)
        pool.assign(entrants)
        shared.is_alive = False
        assert {e.status for e in entrants} == {Status.CRASHED}
        return [e.reason for e in entrants]

    for _ in range(MAX_DEATHS):
        assert set(hire()) == {DEAD.reason}
    assert "not started again" in hire()[0]
    assert len(started) == MAX_DEATHS


def test_only_authors_run_in_another_environment(monkeypatch, answering):
    monkeypatch.setattr(pool_module, "Worker", lambda forkserver, _: Process(forkserver.free_bytes))
    monkeypatch.setattr(pool_module, "Forkserver", lambda *_, python: Process(True, python))
    mine = replace(variant("mine@v2"), interpreter="v2")
    found = [Entrant(mine, "entrant"), Entrant(mine, "entrant", tier=SEALED), Entrant(variant("mine"), "entrant")]
    WorkerPool("cpu").assign(found)
    assert [e.worker.is_alive for e in found] == ["v2", "", ""]


def entrants(*workers):
    found = [Entrant(variant(f"v{slot}"), "entrant", slot=slot) for slot in range(len(workers))]
    for entrant, worker in zip(found, workers, strict=True):
        entrant.worker = worker
    return found


def test_a_living_worker_is_asked_for_the_free_memory(monkeypatch):
    def ask(worker, message, timeout_s):
        return Answer(worker.free_bytes >= 0, {"free_bytes": worker.free_bytes})

    monkeypatch.setattr(pool_module, "ask", ask)
    dead, dying, alive = Process(False, 1), Process(True, -1), Process(True, 2)
    pool = WorkerPool("cuda", forkserver=Process)
    assert pool.free_bytes(entrants(None, dead, dying, alive)) == 2
    assert pool.free_bytes(entrants(None, dead, dying)) is None
    assert pool.free_bytes([]) is None


def test_a_new_version_of_a_file_has_a_new_worker(monkeypatch, answering):
    started = []
    monkeypatch.setattr(pool_module, "Worker", lambda *_: started.append(Process()) or started[-1])
    pool = WorkerPool("cpu", forkserver=Process)
    for source_hash in ("1", "1", "2", "1"):
        pool.assign([Entrant(replace(variant("mine"), source_hash=source_hash), "entrant"), Entrant(variant("other"), "entrant")])
    assert [worker.is_alive for worker in started] == [False, True, False, True]
