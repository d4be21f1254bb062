"""The jobs of a queue as files: every change of a state is written in one step, so that none is lost with the process.

DIR/jobs/ID/job.json       the state
DIR/jobs/ID/project/       where pytest runs: kernels/submitted/NAME.py, shapes.yaml, reports/
DIR/jobs/ID/events.jsonl   what --softbench-events wrote
DIR/jobs/ID/output.txt     the end of what pytest printed
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from softbench import typed
from softbench.measure import procfs
from softbench.texts import InputError

WAITING, RUNNING, DONE, FAILED, CANCELLED, TIMED_OUT = "waiting", "running", "done", "failed", "cancelled", "timed out"
OPEN = (WAITING, RUNNING)
MOST_ATTEMPTS = 3
_STARTED = 19
"""The field of /proc/PID/stat with the time at which a process started, which no other process with that id has."""


class QueueFull(InputError):
    """As many jobs wait as may."""


@dataclass(frozen=True)
class Job:
    """A kernel file and its cases, and what became of them. Times are ISO 8601 in UTC, "" before they are known.

    others     the implementations that take part besides those of the file
    attempts   how often it was started; one that was running when the server ended is started again
    exit_code  of pytest: 0 or 1 where it is done
    process    id and start of pytest, while it runs
    """

    id: str
    name: str
    implementations: tuple[str, ...]
    others: tuple[str, ...]
    profile: str
    cases: int
    budget_s: float | int | None
    state: str
    submitted: str
    started: str = ""
    ended: str = ""
    attempts: int = 0
    exit_code: int | None = None
    reason: str = ""
    process: tuple[int, ...] = ()


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Queue:
    """The jobs of a folder, which one process at a time may serve."""

    def __init__(self, folder: Path, most_waiting: int) -> None:
        """Raises InputError if the folder cannot be used, or another process serves it."""
        self._jobs_folder, self._most_waiting = folder / "jobs", most_waiting
        self.jobs: dict[str, Job] = {}
        try:
            self._jobs_folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(f"--queue: another process serves {folder}; stop it, or name another folder") from None
        except OSError as error:
            raise InputError(f"--queue: {folder}: {error.strerror}") from None
        self._last = 0
        for path in sorted(self._jobs_folder.iterdir()):
            self._load(path)

    def close(self) -> None:
        """Let another process serve the folder."""
        self._lock.close()

    def folder(self, job: Job) -> Path:
        return self._jobs_folder / job.id

    def project(self, job: Job) -> Path:
        return self.folder(job) / "project"

    def events(self, job: Job) -> Path:
        return self.folder(job) / "events.jsonl"

    @property
    def waiting(self) -> list[Job]:
        """In the order in which they run."""
        return [job for job in self.jobs.values() if job.state == WAITING]

    def require_room(self) -> None:
        """Raises QueueFull if no further job may wait."""
        if len(self.waiting) >= self._most_waiting:
            raise QueueFull(f"{self._most_waiting} jobs wait, and more may not; try again when some are done")

    @contextlib.contextmanager
    def staged(self) -> Iterator[Path]:
        """A folder for a new job, which is removed unless `add` has taken it. Raises QueueFull or OSError."""
        self.require_room()
        place = Path(tempfile.mkdtemp(prefix=".new-", dir=self._jobs_folder))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def add(self, staged: Path, make: Callable[[str, str], Job]) -> Job:
        """A new job of a staged folder, made of an id and the time; on disk when this returns. Raises QueueFull or OSError."""
        self.require_room()
        self._last += 1
        job = make(f"{self._last:06d}", now())
        _write(staged / "job.json", job)
        staged.rename(self.folder(job))
        _sync(self._jobs_folder)
        self.jobs[job.id] = job
        return job

    def update(self, job: Job, **changes: Any) -> Job:
        """The job with another state. If that cannot be written, stderr says so, and after a restart the job runs again."""
        job = self.jobs[job.id] = replace(job, **changes)
        try:
            _write(self.folder(job) / "job.json", job)
        except OSError as error:
            print(f"softbench serve: job {job.id}: {error.strerror}; its state is not kept", file=sys.stderr, flush=True)
        return job

    def _load(self, path: Path) -> None:
        if path.name.startswith(".new-"):  # its submission was never answered
            shutil.rmtree(path, ignore_errors=True)
            return
        if path.name.isdecimal():
            self._last = max(self._last, int(path.name))
        try:
            job = typed.build(Job, json.loads((path / "job.json").read_text(encoding="utf-8")))
            if job.id != path.name:
                raise ValueError(f"is the state of {job.id}")
        except (OSError, ValueError) as error:
            print(f"softbench serve: {path}: {error}; the job is left alone", file=sys.stderr, flush=True)
            return
        self.jobs[job.id] = job
        if job.state == RUNNING:
            end_leftover(job)
            if job.attempts < MOST_ATTEMPTS:
                self.update(job, state=WAITING, process=())
            else:
                reason = f"the server ended {job.attempts} times while it ran"
                self.update(job, state=FAILED, process=(), reason=reason, ended=now())


def identity(pid: int) -> tuple[int, ...]:
    """A process's id and start; () if it has ended."""
    fields = procfs.stat(pid)
    return (pid, int(fields[_STARTED])) if len(fields) > _STARTED else ()


def end_leftover(job: Job) -> None:
    """End the process of a job whose server was killed, unless it has ended."""
    if job.process and identity(job.process[0]) == job.process:
        with contextlib.suppress(OSError):
            os.killpg(job.process[0], signal.SIGKILL)


def _write(path: Path, job: Job) -> None:
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(asdict(job), file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _sync(folder: Path) -> None:
    """Have a rename in the folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
