"""A GPU that falls off, or that somebody else has filled, in the middle of a run: it ends, and loses nothing.

No GPU is needed: a made-up one whose workers run on the CPU for as long as it is there. Without it they want CUDA, which is
hidden from them, and the contexts of those that live end with it.
"""

from dataclasses import replace

import pytest
from support.cards import H200
from support.offenders import BAD, write
from support.pools import Forked
from support.projects import bench, project, record_lines

from softbench.cases import registry
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules
from softbench.measure.contest.worker_pool import DeviceLost, WorkerPool
from softbench.measure.contest.workers import Answer
from softbench.model import Status

SHAPES = """
profiles:
  three:
    description: three cases that are only checked
    timed: false
    groups: [{operator: softmax, dtype: float32, rows: [4, 8, 16], columns: 64}]
"""
CONFTEST = """
from pathlib import Path
from softbench.measure import device
from softbench.measure.contest.worker_pool import WorkerPool

CARD = device.Gpu("NVIDIA H200", 90, 132, 60 << 20, 141 << 30, 3201000, 6016, driver="580.1", uuid="GPU-7")
LOST = Path(__file__).parent / "lost"
asked = WorkerPool.everyone


def everyone(self, operation, timeout_s):
    asked(self, operation, timeout_s)
    for worker in self.living if LOST.exists() else ():
        worker.end()


device.gpus = lambda: (CARD,)
WorkerPool.device = property(lambda self: "cuda" if LOST.exists() else "cpu", lambda self, value: None)
WorkerPool.everyone = everyone
"""
BREAKER = """
from pathlib import Path
from softbench import implementation

@implementation(operator="softmax")
def own_breaker(case):
    if case.rows == 8 and (Path(__file__).parent / "breaks").exists():
        (Path(__file__).parents[2] / "lost").touch()
        raise RuntimeError("CUDA error: unknown error")
    return lambda x: x.softmax(-1)
"""


def test_a_lost_gpu_ends_the_run_which_can_be_resumed(tmp_path):
    folder = project(tmp_path, breaker=BREAKER)
    (folder / "shapes.yaml").write_text(SHAPES)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "kernels" / "mine" / "breaks").touch()

    def run(*options, code):
        return bench(folder, "-k", "own_right or own_breaker", *options, code=code, SOFTBENCH_WRITABLE=str(folder))

    done = run(code=2)
    assert "NVIDIA H200 (GPU-7) cannot be used any more: start raised" in done.stdout
    assert "Traceback" not in done.stdout
    assert [(cell["case"]["shape"][0], cell["status"]) for cell in record_lines(folder)[1:]] == [(4, "PASSED")] * 2

    run("--softbench-resume=latest", code=2)  # it still is not there
    assert len(record_lines(folder)) == 3

    (folder / "kernels" / "mine" / "breaks").unlink()
    (folder / "lost").unlink()
    run("--softbench-resume=latest", code=0)
    cells = record_lines(folder)[1:]
    assert {(cell["case"]["shape"][0], cell["status"]) for cell in cells} == {(n, "PASSED") for n in (4, 8, 16)}
    assert len(cells) == 6


def test_where_all_die_of_themselves_the_gpu_is_not_accused(tmp_path):
    write(tmp_path, "dying", "factory", "os._exit(5)")
    pool = WorkerPool("cpu", lambda: Forked({}))
    contest, variants = Contest(Rules(), pool, H200), registry.find([tmp_path])
    try:
        (record,) = contest.run(replace(BAD, timed=False), variants)
        assert (record.status, record.reason) == (Status.CRASHED, "the process ended itself with exit code 5")
        pool.device = "cuda"  # and now there is none
        with pytest.raises(DeviceLost, match="cannot be used any more"):
            contest.run(replace(BAD, timed=False), variants)
    finally:
        pool.close()


KILLED = Answer(False, status=Status.CRASHED, reason="the process died of SIGKILL", fatal=True)
LOST = Answer(False, status=Status.RUNTIME_ERROR, reason="start raised", fatal=True)


@pytest.mark.parametrize(
    ("answers", "why"),
    [([KILLED, Answer(True)], ""), ([KILLED, KILLED], KILLED.reason), ([KILLED, None], ""), ([LOST], LOST.reason)],
)
def test_the_gpu_is_not_accused_by_one_process_that_was_killed(monkeypatch, answers, why):
    left = list(answers)
    monkeypatch.setattr(WorkerPool, "apart", lambda *_, **__: left.pop(0))
    assert WorkerPool("cuda").refused() == why
    assert left == []
