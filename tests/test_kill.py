"""The end of pytest itself in the middle of a contest: by SIGKILL and by Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from offenders import MARK, processes, seconds_until, write

from softbench import store
from softbench.model import Run

ROOT = Path(__file__).resolve().parents[1]
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


def heed_interrupts() -> None:
    """A job in the background inherits that Ctrl-C is ignored, and CI is such a job."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Command:
    """`pytest --softbench` in a folder of its own, with an honest implementation and one that sleeps while asked to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"{os.getpid()}-{folder}"
        (folder / "shapes.yaml").write_text(SHAPES)
        write(folder / "mine", "honest")
        write(folder / "mine", "sleeper", "launch", SLEEPER)
        self.running: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> subprocess.Popen[str]:
        words = ["-m", "pytest", "-p", "softbench.plugin", "-p", "no:cacheprovider", "--softbench", *options]
        words += ["--softbench-profile", "tiny", "--softbench-impls", "mine", "--softbench-budget", "0.05"]
        self.running = subprocess.Popen(
            [sys.executable, *words, "-k", "honest or sleeper"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=heed_interrupts,  # noqa: PLW1509 - no other thread runs here
        )
        return self.running

    def start_until_asleep(self) -> subprocess.Popen[str]:
        """Started, and in the middle of its second case."""
        (self.folder / "mine" / "sleep").touch()
        process = self.start()
        asleep = self.folder / "mine" / "asleep"
        slept = seconds_until(lambda: asleep.exists() or process.poll() is not None, 60)
        assert slept < 60
        assert process.poll() is None, process.communicate()[0]
        (self.folder / "mine" / "sleep").unlink()
        return process

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


def test_kill_leaves_no_process_and_resume_completes_the_run(command: Command) -> None:
    process = command.start_until_asleep()
    assert len(processes(command.mark)) > 5  # pytest, the nursery, guards, workers and the sleeper's child
    process.kill()
    assert seconds_until(lambda: processes(command.mark) == [], 5) < 5
    process.communicate()
    _first_case_is_kept(command.records())
    file = store.find(command.folder / "reports", "latest")
    before = file.read_bytes()

    process = command.start("--softbench-resume", "latest")
    text, _ = process.communicate(timeout=90)
    assert process.returncode == 0, text
    assert file.read_bytes().startswith(before)
    assert len(list(file.parent.glob("*.jsonl"))) == 1
    run = command.records()
    assert {r.case.shape for r in run.records} == {(8, 32), (8, 64), (8, 96)}
    assert {r.status.value for r in run.records} == {"PASSED"}
    assert file.read_text().count('"shape":[8,32]') == before.decode().count('"shape":[8,32]')  # not run again


def test_interrupt_ends_workers_and_keeps_finished_cases(command: Command) -> None:
    process = command.start_until_asleep()
    process.send_signal(signal.SIGINT)
    assert seconds_until(lambda: set(processes(command.mark)) <= {process.pid}, 5) < 5
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 2, text
    assert "KeyboardInterrupt" in text
    _first_case_is_kept(command.records())
    assert processes(command.mark) == []
