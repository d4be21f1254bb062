import os
import signal
import subprocess
import tempfile
import threading
import time

import pytest
from support.offenders import BAD, NEXT, PROCESSES_EACH, arena, passed, prepare, processes, until, write
from support.pools import MARK, Forked

from softbench.measure.contest import workers
from softbench.measure.contest.processes import Forkserver, ForkserverError, Worker
from softbench.measure.contest.workers import ask, gather
from softbench.model import Status

HELLO = {"op": "hello", "device": "cpu"}


@pytest.fixture
def mark(tmp_path):
    return f"{os.getpid()}-{tmp_path}"


@pytest.fixture
def forkserver(mark):
    made = Forked({MARK: mark})
    yield made
    made.close()
    assert processes(mark) == []


@pytest.fixture
def hire(forkserver):
    made = []

    def start(**environment):
        made.append(greeted(Worker(forkserver, environment)))
        return made[-1]

    yield start
    for worker in made:
        worker.end()


def greeted(worker):
    assert ask(worker, HELLO, 30).ok
    return worker


def kill(forkserver):
    os.kill(forkserver._process.pid, signal.SIGKILL)


def _prepare(folder, name, code=""):
    if code:
        (folder / f"{name}.py").write_text(code)
    return prepare(NEXT, folder / f"{name}.py", name)


def test_end_returns_when_the_process_is_gone(hire, mark):
    worker = hire()
    assert len(processes(mark)) == 1 + PROCESSES_EACH
    worker.end()
    assert len(processes(mark)) == 1  # the forkserver
    assert not worker.is_alive
    assert worker.end() is None


def test_worker_applies_its_environment(hire, tmp_path):
    write(tmp_path, "tells", "import", "raise RuntimeError(os.environ['SOFTBENCH_TEST_WORD'])")
    tells = {hire(SOFTBENCH_TEST_WORD=word, SOFTBENCH_WRITABLE=str(tmp_path)): word for word in ("one", "two")}
    answers = gather(dict.fromkeys(tells, _prepare(tmp_path, "tells")), 60)
    assert all(f"RuntimeError: {word}" in answers[worker].reason for worker, word in tells.items())


def test_killed_forkserver_takes_its_workers_with_it(mark):
    forkserver = Forkserver(["no_such_module", "os:setsid"], {MARK: mark})
    worker = greeted(Worker(forkserver, {}))
    kill(forkserver)
    until(lambda: processes(mark) == [])
    answer = ask(worker, HELLO, 30)
    assert (answer.status, answer.fatal) == (Status.CRASHED, True)
    assert "the one that starts processes" in answer.reason
    assert not forkserver.is_alive
    with pytest.raises(ForkserverError, match="workers cannot be started"):
        Worker(forkserver, {})
    forkserver.close()


def test_temporary_files_go_though_the_forkserver_was_killed(tmp_path, mark, monkeypatch):
    """By its parent, or by the next one that starts. Those of a living one stay."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    code = "import tempfile\ntempfile.NamedTemporaryFile(prefix='softbench-sealed-', delete=False)\nraise KeyError"

    def left():
        return set(place.glob("*softbench-*"))

    workers = []  # whose connections stay open

    def one():
        before = left()
        made = Forked({MARK: mark, "TMPDIR": str(place)})
        workers.append(greeted(Worker(made, {})))
        assert not ask(workers[-1], _prepare(tmp_path, "leaves", code), 30).ok
        (folder,) = left() - before
        assert len(list(folder.glob("*/softbench-sealed-*"))) == 1
        return made, folder

    living, kept = one()
    killed, _ = one()
    kill(killed)
    killed.close()
    assert left() == {kept}
    killed, folder = one()
    kill(killed)
    until(lambda: len(processes(mark)) == 1 + PROCESSES_EACH)
    assert left() == {kept, folder}
    next_one, other = one()
    assert left() == {kept, other}
    for forkserver in (living, killed, next_one):
        forkserver.close()
    for worker in workers:
        worker.end()
    assert left() == set()


def test_worker_that_dies_with_the_question_unread(hire, mark):
    """The unread rest resets the connection, which is a death and no message."""
    worker = hire()
    pid = max(processes(mark))  # the last to be started
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    timer.start()
    answer = ask(worker, HELLO, 30)
    timer.join()
    assert (answer.status, answer.fatal) == (Status.CRASHED, True)
    assert answer.reason.startswith("the process died of SIGKILL")


def test_contest_survives_the_loss_of_the_forkserver(tmp_path):
    with arena(tmp_path) as field:
        assert passed(field.run(NEXT))
        forkserver = field.contest.pool._forkserver()
        kill(forkserver)
        until(lambda: not forkserver.is_alive)
        assert passed(field.run(BAD))
        assert len(set(field.pids("honest"))) == 2


def test_an_interrupted_contest_leaves_nothing(tmp_path):
    write(tmp_path, "sleeps", "launch", "open(__file__ + '.asleep', 'w').close(); time.sleep(600)")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with arena(tmp_path) as field:

        def interrupt():
            until((tmp_path / "sleeps.py.asleep").exists, 60)
            signal.pthread_kill(main, signal.SIGINT)

        main = threading.main_thread().ident or 0
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            field.run(BAD)
        thread.join()
        assert processes(field.mark) == []
        assert passed(field.run(NEXT), ["honest", "sleeps"])
    signal.signal(signal.SIGINT, before)


def test_a_grandchild_that_kills_its_guards_is_ended(tmp_path, mark):
    forkserver = Forked({MARK: mark, "SOFTBENCH_NAMESPACES": "off"})
    worker = Worker(forkserver, {})
    bystander = subprocess.Popen(["sleep", "60"])
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid(); os.fork()
    time.sleep(0.3)
    for pid in ({forkserver._process.pid}, {worker.pid}):
        try: os.kill(pid, 9)
        except OSError: pass
    os.closerange(0, 99)
time.sleep(600)
"""
    try:
        greeted(worker)
        assert not ask(worker, _prepare(tmp_path, "kills", code), 2).ok  # the child holds the channel open
        assert len(processes(mark)) >= 1
        worker.end(kill=False)
        forkserver.close()
        assert processes(mark) == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_forkserver_that_is_still_importing_closes_at_once(mark):
    forkserver = Forkserver(["torch"], {MARK: mark})
    start = time.monotonic()
    forkserver.close()
    assert time.monotonic() - start < 0.5
    assert processes(mark) == []


def test_what_later_workers_share_is_done_behind_the_first(tmp_path, mark):
    (tmp_path / "shared.py").write_text(f"def begin(): open({str(tmp_path / 'done')!r}, 'w').close()")
    later = ["no_such_module", "shared:no", "shared:begin"]
    forkserver = Forkserver([], {MARK: mark, "PYTHONPATH": str(tmp_path)}, later)
    hired = []
    try:
        time.sleep(0.5)
        assert not (tmp_path / "done").exists()
        for _ in range(2):
            hired.append(greeted(Worker(forkserver, {})))
            until((tmp_path / "done").exists)
    finally:
        for worker in hired:
            worker.end()
        forkserver.close()


@pytest.mark.parametrize("dies", ["before", "meanwhile"])
def test_answer_in_time_is_not_late(hire, tmp_path, mark, monkeypatch, dies):
    first = _prepare(tmp_path, "first", "raise KeyError")
    slow = _prepare(tmp_path, "quick", "import time; time.sleep(0.4); raise KeyError('quick')")
    dying = _prepare(tmp_path, "dying", "import os; os._exit(1)")
    quick, dead = hire(), hire()
    assert not ask(quick, first, 60).ok  # what follows finds everything imported

    def slow_death(worker, start):
        time.sleep(1)  # stands for the reaping of a process that is long in dying
        return real_death(worker, start)

    real_death = workers._death
    monkeypatch.setattr(workers, "_death", slow_death)
    if dies == "before":
        os.killpg(dead.pid, signal.SIGKILL)
        until(lambda: len(processes(mark)) == 1 + PROCESSES_EACH)
    answers = gather({dead: dying, quick: slow}, 0.6)
    assert answers[dead].status is Status.CRASHED
    assert "KeyError: 'quick'" in answers[quick].reason


def test_what_follows_is_asked_when_its_worker_is_free(hire, tmp_path):
    quick, idle, slow, dead = (hire() for _ in range(4))
    order = []

    def then(worker, answer):
        order.append(worker)
        return {idle: HELLO, slow: HELLO, dead: HELLO} if worker is quick else {}

    late = _prepare(tmp_path, "slow", "import time; time.sleep(1); raise KeyError")
    dying = _prepare(tmp_path, "dying", "import os; os._exit(1)")
    answers = gather({quick: HELLO, slow: late, dead: dying}, 60, then=then)
    assert order.index(idle) < order.index(slow)
    # what follows a failure is not asked
    assert [answers[worker].ok for worker in (quick, idle, slow, dead)] == [True, True, False, False]
    assert ask(slow, HELLO, 10).ok
