from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.builders import softmax_case, variant
from support.grids import over
from support.simulated import DEAD

from softbench.measure.contest import preparing
from softbench.measure.contest import worker_pool as pool_module
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.preparing import Preparation
from softbench.measure.contest.worker_pool import MAX_DEATHS, WorkerPool
from softbench.measure.contest.workers import Answer
from softbench.measure.plans import Plan
from softbench.model import OPEN, SEALED, Accuracy, Status


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
    return [Entrant(variant(f"v{slot}"), "entrant", slot=slot, worker=worker) for slot, worker in enumerate(workers)]


def test_a_living_worker_is_asked_for_the_free_memory(monkeypatch):
    monkeypatch.setattr(pool_module, "ask", lambda worker, *_: Answer(worker.free_bytes >= 0, {"free_bytes": worker.free_bytes}))
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


CASE = softmax_case(8, 32, "float32")
POOL = SimpleNamespace(device="cuda")


def entrant_at_referee(**ended):
    worker = SimpleNamespace(is_alive=False, **({"was_killed": False, "is_lost": False} | ended))
    return Entrant(variant("mine"), "entrant", tier=SEALED, handed_over="/file", worker=worker)


@over("ended, tiers", [({"was_killed": True}, ["", OPEN]), ({"is_lost": True}, ["", OPEN]), ({}, [OPEN])])
def test_who_is_killed_at_its_referee_is_handed_over_again(ended, tiers):
    preparation, entrant = Preparation(CASE, POOL, 1.0, 0), entrant_at_referee(**ended)
    found = []
    for _ in tiers:
        entrant.tier = SEALED
        preparation._advance(entrant, DEAD)
        found.append(entrant.tier)
    assert found == tiers
    assert entrant.is_open
    assert entrant.open_because == "its sealed copy failed: the process died of SIGSEGV"


@over("gib, most", [(79, 2), (140, 5), (1000, 36), (10, 1), (0, 9)])
def test_as_many_are_built_at_once_as_the_memory_holds(gib, most):
    """Inputs and outputs of 2 GiB: 6 for the timed launches, 16 for the calls of the checks."""
    case = softmax_case(4096, 131072, "float32")
    preparation = Preparation(case, POOL, 1.0, 0, plan=lambda: Plan(2, 1, "cold"), memory_bytes=gib << 30)
    preparation._field = [entrant_at_referee() for _ in range(9)]
    assert preparation._at_once() == most


def test_an_author_that_ran_out_of_memory_starts_again(monkeypatch):
    ended = []
    old, new = (SimpleNamespace(is_alive=True, name=n, end=lambda n=n: ended.append(n)) for n in ("old", "new"))
    pool = SimpleNamespace(device="cuda", everyone=lambda operation, _: ended.append(operation))
    entrant = Entrant(variant("mine"), "entrant", worker=old)
    pool.assign = lambda entrants: setattr(entrants[0], "worker", new)
    monkeypatch.setattr(preparing, "ask", lambda worker, *_: Answer(True, {"by": worker.name}))
    assert Preparation(CASE, pool, 1.0, 0)._alone(entrant).data == {"by": "new"}
    assert ended == ["release", "old"]
    entrant.tier, entrant.worker = SEALED, old  # a referee captures nothing
    assert Preparation(CASE, pool, 1.0, 0)._alone(entrant).data == {"by": "old"}


def test_a_sealed_cell_has_its_referees_errors():
    preparation, near = Preparation(CASE, POOL, 1.0, 0), Accuracy(0.5, 0.25, 0.0, 64)
    author = entrant_at_referee()
    author.tier = ""
    preparation._advance(author, Answer(True, {"path": "/file", "accuracy": Accuracy(0.0, 0.0, 0.0, 1)}))
    assert (author.tier, author.accuracy) == (SEALED, None)
    preparation._advance(author, Answer(True, {"kernels": (), "digest": "ab", "accuracy": near}))
    assert author.accuracy == near
    preparation._is_again = True  # built again without a check
    preparation._advance(author, Answer(True, {"kernels": (), "digest": "ab", "accuracy": None}))
    assert author.accuracy == near
    author.settle(Status.INCORRECT, "wrong in a timed call")
    assert author.accuracy is None
