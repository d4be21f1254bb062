"""Workers in namespaces of their own: who kills and stops whatever it sees reaches nobody, and leaves nothing behind."""

import ctypes
import os

import pytest
from support.builders import variant
from support.offenders import BAD, NEXT, arena, passed, processes, write
from support.pools import MARK, Forked

from softbench.measure.contest import worker_pool as pool_module
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.processes import Worker
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.contest.workers import Answer, ask
from softbench.measure.worker import isolation
from softbench.model import Status

SEEN = "[int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]"
KILLS = f"""
for pid in {SEEN}:
    if os.environ["{MARK}"].encode() in Path(f"/proc/{{pid}}/environ").read_bytes(): os.kill(pid, signal.%s)
"""
HARMFUL = {
    "kills": KILLS % "SIGKILL",
    "stops": KILLS % "SIGSTOP",
    "forks": "if calls == 1 and not os.fork(): os.setsid(); time.sleep(600)",
}
needs_namespaces = pytest.mark.skipif(not isolation.is_possible(), reason="this kernel gives no namespaces here")


@needs_namespaces
def test_who_kills_and_stops_what_it_sees_reaches_no_rival(tmp_path):
    for name, code in HARMFUL.items():
        write(tmp_path, name, "launch", code)
    with arena(tmp_path, SOFTBENCH_CONFINE="off") as field:
        first, second = field.run(BAD), field.run(NEXT)
    assert passed(first, ["honest", "kills", "stops"]), {name: record.reason for name, record in first.items()}
    assert passed(second, ["honest", *HARMFUL])


@needs_namespaces
def test_a_worker_sees_only_its_own_processes(tmp_path):
    tells = f"raise Unsupported(repr(sorted({SEEN})) + repr(os.getppid()) + str(os.path.isdir('/proc/self/fd')))"
    write(tmp_path, "tells", "factory", tells)
    with arena(tmp_path) as field:
        assert field.run(BAD)["tells"].reason == "[1]1True"
        assert len({field.pids("tells")[0], field.pids("honest")[0]}) == 2


@pytest.mark.parametrize("how", ["", "off"])
def test_namespaces_can_be_switched_off(tmp_path, how):
    mark = f"{os.getpid()}-{tmp_path}"
    forkserver = Forked({MARK: mark, "SOFTBENCH_NAMESPACES": how})
    worker = Worker(forkserver, {})
    try:
        assert ask(worker, {"op": "hello", "device": "cpu"}, 30).ok
        assert worker.is_isolated == (isolation.is_possible() and not how)
    finally:
        worker.end()
        forkserver.close()
    assert processes(mark) == []


def test_a_kernel_that_forbids_namespaces_is_found_out(monkeypatch):
    def forbidden(flags):
        raise PermissionError(1, "Operation not permitted", "unshare")

    monkeypatch.setattr(isolation, "_unshare", forbidden)
    assert not isolation.is_possible()


@needs_namespaces
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_namespaces_too():
    pid = os.fork()
    if pid == 0:
        os.setgid(65534)
        os.setuid(65534)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: who has changed users may not write its own maps
        os._exit(0 if isolation.is_possible() else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_driver_that_fails_in_a_namespace_is_tried_outside(monkeypatch):
    forkservers = []

    class Made:
        is_alive = True

        def __init__(self, preload, environment, *_):
            self.is_isolated = "SOFTBENCH_NAMESPACES" not in environment
            forkservers.append(dict(environment))

        def close(self): ...

        def end(self, *, kill=True): ...

    def hello(requests, timeout_s):
        failed = Answer(False, status=Status.RUNTIME_ERROR, reason="no CUDA")
        return {worker: failed if worker.is_isolated else Answer(True) for worker in requests}

    monkeypatch.setattr(pool_module, "Forkserver", Made)
    monkeypatch.setattr(pool_module, "Worker", lambda forkserver, environment: forkserver)
    monkeypatch.setattr(pool_module, "gather", hello)
    pool, entrant = WorkerPool("cuda"), Entrant(variant("mine"), "entrant")
    pool.assign([entrant])
    assert entrant.is_open
    assert [each.get("SOFTBENCH_NAMESPACES") for each in forkservers] == [None, "off"]
