"""Runs the jobs of a queue one after the other, each by `pytest --softbench` in its own project."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from softbench.cli import measuring
from softbench.cli.serve.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    OPEN,
    RUNNING,
    TIMED_OUT,
    WAITING,
    Job,
    Queue,
    identity,
    now,
)

MOST_OUTPUT = 2**16
"""Bytes of output that are kept of a job: its last."""
_PATIENCE_S = 10.0


@dataclass
class Runner:
    """job_limit_s: longest time of a whole job; timeout_s: of one compile and check, as --softbench-timeout."""

    queue: Queue
    job_limit_s: float
    timeout_s: float
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _now: tuple[str, asyncio.subprocess.Process] | None = None

    def wake(self) -> None:
        """There is a new job."""
        self._news.set()

    async def run(self) -> None:
        """Run what waits, in its order, until this is cancelled; the job that runs then waits again."""
        while True:
            self._news.clear()
            if waiting := self.queue.waiting:
                await self._one(waiting[0])
            else:
                await self._news.wait()

    def cancel(self, job: Job) -> Job:
        """End a job that waits or runs."""
        job = self.queue.update(job, state=CANCELLED, ended=now(), process=())
        if self._now is not None and self._now[0] == job.id:
            _end(self._now[1])
        return job

    async def _one(self, job: Job) -> None:
        with _Tail() as tail:
            try:
                self._fresh(job)
                process = await self._start(job, tail)
            except OSError as error:
                self.queue.update(job, state=FAILED, ended=now(), reason=f"pytest cannot be started: {error.strerror}")
                return
            if self.queue.jobs[job.id].state == WAITING:  # it was not cancelled meanwhile
                own = identity(process.pid)
                job = self.queue.update(job, state=RUNNING, started=now(), attempts=job.attempts + 1, process=own)
            self._now = job.id, process
            state = await self._awaited(job, process)
            self._ended(job, state, process.returncode, tail.text)

    async def _awaited(self, job: Job, process: asyncio.subprocess.Process) -> str:
        """The state in which a job ends; its process has ended then."""
        try:
            if self.queue.jobs[job.id].state == RUNNING:
                await asyncio.wait_for(process.wait(), self.job_limit_s)
            state = DONE if process.returncode in (0, 1) else FAILED
        except asyncio.TimeoutError:
            state = TIMED_OUT
        except asyncio.CancelledError:  # the server ends
            if self.queue.jobs[job.id].state == RUNNING:
                self.queue.update(job, state=WAITING, process=(), attempts=job.attempts - 1)
            raise
        finally:
            _end(process)
            self._now = None
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), _PATIENCE_S)
        return state

    def _ended(self, job: Job, state: str, code: int | None, output: str) -> None:
        with contextlib.suppress(OSError):
            (self.queue.folder(job) / "output.txt").write_text(output, encoding="utf-8")
        if self.queue.jobs[job.id].state not in OPEN:  # it was cancelled
            return
        reason = {FAILED: measuring.last_line(output), TIMED_OUT: f"it took longer than {self.job_limit_s:g} s"}
        changes = {"exit_code": code if state in (DONE, FAILED) else None, "reason": reason.get(state, "")}
        self.queue.update(job, state=state, ended=now(), process=(), **changes)

    def _fresh(self, job: Job) -> None:
        """Remove what an earlier attempt left."""
        shutil.rmtree(self.queue.project(job) / "reports", ignore_errors=True)
        self.queue.events(job).unlink(missing_ok=True)

    async def _start(self, job: Job, tail: _Tail) -> asyncio.subprocess.Process:
        words = [
            "--softbench-impls=kernels",
            "--softbench-ladders",
            "--softbench-no-page",
            f"--softbench-profile={job.profile}",
            f"--softbench-timeout={self.timeout_s:g}",
            f"--softbench-events={self.queue.events(job).resolve()}",
            *([] if job.budget_s is None else [f"--softbench-budget={job.budget_s:g}"]),
        ]
        return await asyncio.create_subprocess_exec(
            *measuring.command(words),
            cwd=self.queue.project(job),
            env=measuring.elsewhere(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=tail.writer,
            stderr=tail.writer,
            start_new_session=True,
        )


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a process and its group. Workers are in sessions of their own, and end with it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


class _Tail:
    """The end of what is written into a pipe; who keeps the pipe open is not waited for."""

    def __enter__(self) -> _Tail:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._kept = b""
        asyncio.get_running_loop().add_reader(self._reader, self._read)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        os.close(self.writer)

    @property
    def text(self) -> str:
        self._read()
        return self._kept.decode(errors="replace")

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._reader, MOST_OUTPUT))[-MOST_OUTPUT:]


async def events(queue: Queue, number: str, every_s: float = 0.2) -> AsyncIterator[bytes]:
    """The events of a job, line by line as they come, until it has ended; the last line has its state."""
    job, place, rest = queue.jobs[number], 0, b""
    while True:
        is_open = (job := queue.jobs[number]).state in OPEN
        with contextlib.suppress(OSError), queue.events(job).open("rb") as file:
            file.seek(place)
            new = file.read(MOST_OUTPUT)
            place += len(new)
            *lines, rest = (rest + new).split(b"\n")
            rest = rest[-MOST_OUTPUT:]
            for line in lines:
                yield line + b"\n"
            if new:
                continue
        if not is_open:
            yield (
                json.dumps({"event": "job", "at": job.ended, "state": job.state, "reason": job.reason}).encode() + b"\n"
            )
            return
        await asyncio.sleep(every_s)
