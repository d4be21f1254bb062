"""Runs the jobs of a queue one after the other, each by `pytest --softbench` in its own project.

The process of the next job is started while nothing waits, so that the job finds torch imported and the clocks checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from softbench.cli import measuring
from softbench.cli.serve.jobs import CANCELLED, DONE, FAILED, OPEN, RUNNING, TIMED_OUT, WAITING, Job, Queue, identity, now

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
    _next: _Next | None = None

    def wake(self) -> None:
        self._news.set()

    async def run(self) -> None:
        """Run what waits, in its order, until this is cancelled; the job that runs then waits again."""
        try:
            while True:
                self._news.clear()
                if waiting := self.queue.waiting:
                    await self._one(waiting[0])
                else:
                    with contextlib.suppress(OSError):  # the next job says so
                        self._next = await self._ready()
                    await self._news.wait()
        finally:
            if self._next is not None:
                await self._next.end()

    def cancel(self, job: Job) -> Job:
        job = self.queue.update(job, state=CANCELLED, ended=now(), process=())
        if self._now is not None and self._now[0] == job.id:
            _end(self._now[1])
        return job

    async def _one(self, job: Job) -> None:
        try:
            # What an earlier attempt left.
            shutil.rmtree(self.queue.project(job) / "reports", ignore_errors=True)
            self.queue.events(job).unlink(missing_ok=True)
            begun, self._next = await self._ready(), None
        except OSError as error:
            self.queue.update(job, state=FAILED, ended=now(), reason=f"pytest cannot be started: {error.strerror}")
            return
        try:
            if self.queue.jobs[job.id].state == WAITING:  # it was not cancelled meanwhile
                own = identity(begun.process.pid)
                job = self.queue.update(job, state=RUNNING, started=now(), attempts=job.attempts + 1, process=own)
                begun.tell(self.queue.project(job), self._arguments(job))
            self._now = job.id, begun.process
            state = await self._awaited(job, begun.process)
        finally:
            await begun.end()
        self._ended(job, state, begun.process.returncode, begun.tail.text)

    async def _ready(self) -> _Next:
        """The process that is ready for a job, or a new one if it has ended. Raises OSError."""
        if self._next is not None:
            if self._next.process.returncode is None:
                return self._next
            await self._next.end()
            self._next = None
        return await _Next().start()

    async def _awaited(self, job: Job, process: asyncio.subprocess.Process) -> str:
        """The state in which a job ends."""
        is_in_time = True
        try:
            if self.queue.jobs[job.id].state == RUNNING:
                is_in_time = await _exits(process, self.job_limit_s)
        except asyncio.CancelledError:  # the server ends
            if self.queue.jobs[job.id].state == RUNNING:
                self.queue.update(job, state=WAITING, process=(), attempts=job.attempts - 1)
            raise
        finally:
            self._now = None
        code = process.returncode
        return TIMED_OUT if not is_in_time else DONE if code in (0, 1) else FAILED

    def _ended(self, job: Job, state: str, code: int | None, output: str) -> None:
        with contextlib.suppress(OSError):
            (self.queue.folder(job) / "output.txt").write_text(output, encoding="utf-8")
        if self.queue.jobs[job.id].state not in OPEN:  # it was cancelled
            return
        reason = {FAILED: measuring.last_line(output), TIMED_OUT: f"it took longer than {self.job_limit_s:g} s"}
        changes = {"exit_code": code if state in (DONE, FAILED) else None, "reason": reason.get(state, "")}
        self.queue.update(job, state=state, ended=now(), process=(), **changes)

    def _arguments(self, job: Job) -> list[str]:
        words = ["impls=kernels", "ladders", "no-page", f"profile={job.profile}", f"timeout={self.timeout_s:g}"]
        words += [f"events={self.queue.events(job).resolve()}"]
        words += [] if job.budget_s is None else [f"budget={job.budget_s:g}"]
        return measuring.arguments_of([f"--softbench-{word}" for word in words])


class _Next:
    """A process that waits for a job, and what it prints. It ends with this one, whose end of its input is closed then."""

    process: asyncio.subprocess.Process

    def __init__(self) -> None:
        self._theirs, self._orders = os.pipe()  # not asyncio's, which waits for all that inherit it
        self.tail = _Tail()

    async def start(self) -> _Next:
        """Raises OSError."""
        try:
            self.process = await asyncio.create_subprocess_exec(
                *measuring.AHEAD,
                env=measuring.elsewhere(),
                stdin=self._theirs,
                stdout=self.tail.writer,
                stderr=self.tail.writer,
                start_new_session=True,
            )
        except OSError:
            self._close()
            raise
        return self

    def tell(self, project: Path, arguments: list[str]) -> None:
        """Have it run pytest in a project; if it has ended, its exit code says so."""
        order = json.dumps({"folder": str(project.resolve()), "arguments": arguments})
        os.write(self._orders, order.encode() + b"\n")

    async def end(self) -> None:
        _end(self.process)
        await _exits(self.process, _PATIENCE_S)
        self._close()

    def _close(self) -> None:
        os.close(self._theirs)
        os.close(self._orders)
        self.tail.close()


async def _exits(process: asyncio.subprocess.Process, limit_s: float) -> bool:
    """Whether a process ends in time. Not by `wait_for`, which loses a cancellation that comes with the end before Python 3.12."""
    ending = asyncio.ensure_future(process.wait())
    try:
        return bool((await asyncio.wait([ending], timeout=limit_s))[0])
    finally:
        ending.cancel()


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a process and its group. Workers are in sessions of their own, and end with it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


class _Tail:
    """The end of what is written into a pipe; who keeps the pipe open is not waited for."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._kept = b""
        asyncio.get_running_loop().add_reader(self._reader, self._read)

    def close(self) -> None:
        self._read()
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        os.close(self.writer)

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace")

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._reader, MOST_OUTPUT))[-MOST_OUTPUT:]


async def events(queue: Queue, number: str) -> AsyncIterator[bytes]:
    """The events of a job, line by line as they come, until it has ended; the last line has its state."""
    place, rest = 0, b""
    while True:
        job = queue.jobs[number]
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
        if job.state not in OPEN:
            yield (json.dumps({"event": "job", "at": job.ended, "state": job.state, "reason": job.reason}).encode() + b"\n")
            return
        await asyncio.sleep(0.2)
