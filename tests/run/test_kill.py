"""The end of pytest itself, or of processes of its run, at any moment: by SIGKILL and by Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from support import warm
from support.offenders import processes, seconds_until, write
from support.projects import PYTHONPATH, heed_interrupts
from support.warm import MARK

from softbench.analysis import leaderboard
from softbench.analysis.leaderboard.formatting import unfinished
from softbench.model import Run
from softbench.records import store

MOMENTS = int(os.environ.get("SOFTBENCH_KILL_MOMENTS", "3"))
"""How many moments a test tries, one after the other; more by hand."""
GONE_S = 2.0
SHAPES = """
profiles:
  tiny:
    description: three cases; the sleeper sleeps in the second
    timed: true
    groups:
      - operator: softmax
        dtype: float32
        shapes: [[8, 32], [8, 64], [8, 96]]
"""
SLEEPER = """
if (Path(__file__).parent / "sleep").exists():
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    (Path(__file__).parent / "asleep").touch()
    time.sleep(600)
"""


class Command:
    """`pytest --softbench` in a folder of its own, with an honest implementation and one that sleeps while asked to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"{os.getpid()}-{folder}"
        (folder / "shapes.yaml").write_text(SHAPES)
        write(folder / "mine", "honest")
        write(folder / "mine", "sleeper", "launch", SLEEPER)
        self.running: subprocess.Popen[str] | None = None

    def start(self, *options: str, is_warm: bool = True) -> subprocess.Popen[str]:
        words = ["-m", "pytest", "-p", "softbench.plugin", "-p", "no:cacheprovider", "--softbench", *options]
        words += ["--softbench-profile", "tiny", "--softbench-impls", "mine", "--softbench-budget", "0.05"]
        own = {"PYTHONPATH": PYTHONPATH, "CUDA_VISIBLE_DEVICES": "", "SOFTBENCH_WRITABLE": str(self.folder)}
        popen: type[subprocess.Popen[str]] = warm.popen(PYTHONPATH) if is_warm else subprocess.Popen
        self.running = popen(
            [sys.executable, *words, "-k", "honest or sleeper"],
            cwd=self.folder,
            env={**os.environ, **own, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=heed_interrupts,
        )
        return self.running

    def start_until_asleep(self) -> subprocess.Popen[str]:
        """Started, and in the middle of its second case."""
        (self.folder / "mine" / "sleep").touch()
        process = self.start(is_warm=False)
        asleep = self.folder / "mine" / "asleep"
        slept = seconds_until(lambda: asleep.exists() or process.poll() is not None, 60)
        assert slept < 60
        assert process.poll() is None, process.communicate()[0]
        (self.folder / "mine" / "sleep").unlink()
        return process

    def finish(self, *codes: int) -> Run:
        """The latest run, gone on with until it ends by itself, with one of these codes."""
        process = self.start("--softbench-resume", "latest")
        text, _ = process.communicate(timeout=90)
        assert process.returncode in codes, text
        return self.records()

    def files(self) -> list[Path]:
        return list((self.folder / "reports").glob("*.jsonl"))

    def has_more_than(self, lines: int) -> bool:
        return any(file.read_bytes().count(b"\n") > lines for file in self.files())

    def records(self) -> Run:
        return store.read(store.find(self.folder / "reports", "latest"))

    def close(self) -> None:
        if self.running is not None and self.running.poll() is None:
            self.running.kill()
        for pid in processes(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.running is not None:
            self.running.communicate()


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    made = Command(tmp_path)
    yield made
    made.close()


def _first_case_is_kept(run: Run) -> None:
    assert {r.case.shape for r in run.records} == {(8, 32)}
    mine = {r.variant.id: r for r in run.records if r.role == "entrant"}
    assert {name: r.status.value for name, r in mine.items()} == {"honest": "PASSED", "sleeper": "PASSED"}
    assert all(r.clock("wall") for r in mine.values())


def said_of(command: Command) -> str:
    return unfinished(leaderboard.build(command.records()))


def test_kill_leaves_no_process_and_resume_completes_the_run(command: Command) -> None:
    process = command.start_until_asleep()
    assert len(processes(command.mark)) > 5  # pytest, the forkserver, guards, workers and the sleeper's child
    process.kill()
    assert seconds_until(lambda: processes(command.mark) == [], 5) < 5
    process.communicate()
    _first_case_is_kept(command.records())
    assert said_of(command) == "1 of 3 cases: the run was ended early; --softbench-resume runs the others."
    file = store.find(command.folder / "reports", "latest")
    before = file.read_bytes()

    run = command.finish(0)
    assert len(command.files()) == 1
    assert file.read_bytes().startswith(before)
    assert {r.case.shape for r in run.records} == {(8, 32), (8, 64), (8, 96)}
    assert {r.status.value for r in run.records} == {"PASSED"}
    assert said_of(command) == ""
    assert file.read_text().count('"shape":[8,32]') == before.decode().count('"shape":[8,32]')  # not run again


def test_interrupt_ends_workers_and_keeps_finished_cases(command: Command) -> None:
    process = command.start_until_asleep()
    process.send_signal(signal.SIGINT)
    assert seconds_until(lambda: set(processes(command.mark)) <= {process.pid}, 5) < GONE_S
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 2, text
    assert "KeyboardInterrupt" in text
    assert "\n1 of 3 cases: the run was ended early; --softbench-resume runs the others.\n" in text
    (page,) = (command.folder / "reports").glob("2*.html")
    assert "1 of 3 cases: the run was ended" in page.read_text()
    _first_case_is_kept(command.records())
    assert processes(command.mark) == []


def cells(run: Run) -> set[tuple[str, str, str]]:
    return {(r.case.id, r.role, r.variant.implementation) for r in run.records}


def whole() -> set[tuple[str, str, str]]:
    """The cells of a run that nothing has disturbed."""
    who = [("entrant", "honest"), ("entrant", "sleeper"), ("reference", "torch_eager"), ("roof", "host_copy")]
    return {(f"softmax-float32-8x{columns}", *one) for columns in (32, 64, 96) for one in who}


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT], ids=lambda sign: sign.name)
def test_an_end_at_any_moment_costs_what_was_under_way(command: Command, sign: signal.Signals) -> None:
    """The same run is ended again and again; what was finished stays, and in the end it is complete."""
    random = Random(sign)
    kept: set[tuple[str, str, str]] = set()
    for number in range(MOMENTS):
        options = ("--softbench-resume", "latest") if command.files() else ()
        process = command.start(*options, is_warm=number > 0)  # the first end comes in the middle of the imports
        lines = sum(file.read_bytes().count(b"\n") for file in command.files())
        # Some ends come during the start, the others somewhere behind a case that this command has finished.
        more = 0 if number == 0 else 1
        seconds_until(lambda: process.poll() is not None or command.has_more_than(lines + more), 60)  # noqa: B023
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(random.uniform(0.0, 1.0))
        process.send_signal(sign)
        assert seconds_until(lambda: set(processes(command.mark)) <= {process.pid}, 5) < GONE_S  # noqa: B023
        text, _ = process.communicate(timeout=30)
        assert process.returncode in (0, -sign, *((2,) if sign is signal.SIGINT else ())), text
        assert processes(command.mark) == []
        now = cells(command.records())
        assert kept <= now
        kept = now
    assert cells(command.finish(0)) == whole()
    assert len(command.files()) == 1


@pytest.mark.slow
def test_processes_of_a_run_may_end_at_any_moment(command: Command) -> None:
    """Workers, their guards and the forkserver are killed; the run ends by itself, with a record for every cell."""
    random = Random(1)
    for _ in range(MOMENTS):
        process = command.start()
        for _ in range(2):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(random.uniform(0.2, 0.8))
            others = sorted(set(processes(command.mark)) - {process.pid})
            if others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(others), signal.SIGKILL)
        text, _ = process.communicate(timeout=90)
        assert process.returncode in (0, 1), text
        assert "INTERNALERROR" not in text
        assert processes(command.mark) == []
        run = command.records()
        assert cells(run) >= {cell for cell in whole() if cell[1] != "roof"}
        assert all(r.reason for r in run.records if r.status.value != "PASSED")
        assert cells(command.finish(0, 1)) == whole()
