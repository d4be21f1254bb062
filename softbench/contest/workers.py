"""Worker processes as the parent sees them: start, ask many at once with a deadline, and what a death means."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softbench.model import Status
from softbench.texts import printable
from softbench.worker import wire
from softbench.worker.wire import Message

Idle = Callable[[int], None] | None
START_TIMEOUT_S = 90.0
_TAIL_BYTES = 4000
_BOOT = """
import json, sys
argument = json.loads(sys.argv[1])
sys.path[:0] = argument["path"]
from softbench.worker.nursery import main
main(argument["fd"], argument["preload"])
"""


@dataclass(frozen=True)
class Answer:
    """What a worker said, or what became of it. fatal: the process is gone or must go."""

    ok: bool
    data: Message = field(default_factory=dict)
    status: Status = Status.PASSED
    reason: str = ""
    fatal: bool = False
    seconds: float = 0.0


class NurseryError(RuntimeError):
    """Workers cannot be started at all."""


class Nursery:
    """The process that forks workers and ends them when this process goes away; see `softbench.worker.nursery`."""

    def __init__(self, preload: list[str], environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        argument = json.dumps({"path": [root], "fd": theirs.fileno(), "preload": preload})
        self._control = ours
        self._has_answered = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, argument],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        theirs.close()

    def spawn(self, environment: Mapping[str, str]) -> tuple[int, socket.socket, int]:
        """A new worker: its pid, its socket, the reading end of its output."""
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            request = json.dumps({"op": "spawn", "env": dict(environment)}).encode()
            self._control.settimeout(START_TIMEOUT_S)
            socket.send_fds(self._control, [request], [theirs.fileno(), writer])
            pid = int(json.loads(self._control.recv(1 << 16))["pid"])
        except (OSError, ValueError) as error:
            ours.close()
            os.close(reader)
            raise NurseryError(f"workers cannot be started: {error or 'no answer'}") from None
        finally:
            theirs.close()
            os.close(writer)
        self._has_answered = True
        return pid, ours, reader

    def reap(self, pid: int) -> int | None:
        """Exit code of an ended worker (negative: the signal), None if the nursery itself is gone."""
        try:
            self._control.settimeout(START_TIMEOUT_S)
            self._control.sendall(json.dumps({"op": "reap", "pid": pid}).encode())
            answer = self._control.recv(1 << 16)
        except OSError:
            return None
        return int(json.loads(answer)["code"]) if answer else None

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End every worker; returns when they are gone."""
        self._control.close()
        if not self._has_answered:
            self._process.kill()  # still importing, which may take many seconds, and without workers
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Worker:
    """One worker process. Use `gather` to talk to it."""

    def __init__(self, nursery: Nursery, environment: Mapping[str, str]) -> None:
        self._nursery = nursery
        self.pid, self.sock, self.output = nursery.spawn(environment)
        self.is_alive = True
        self._tail = bytearray()

    def drain(self) -> None:
        """Take what the worker printed; only the end is kept, however much it is."""
        for _ in range(64):
            try:
                chunk = os.read(self.output, 1 << 16)
            except (BlockingIOError, OSError):
                return
            if not chunk:
                return
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]

    @property
    def last_words(self) -> str:
        """The last printed line that says something."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        return printable(lines[-1])[:200] if lines else ""

    def end(self, *, kill: bool = True) -> int | None:
        """End the process and its group; its exit code."""
        if not self.is_alive:
            return None
        self.is_alive = False
        if kill:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        self.sock.close()
        code = self._nursery.reap(self.pid)
        self.drain()
        os.close(self.output)
        return code


def gather(requests: Mapping[Worker, Message], timeout_s: float, idle: Idle = None) -> dict[Worker, Answer]:
    """Ask several workers at the same time. One that dies or is late is ended, and its answer says so.

    idle hears every second how many have answered; leave it out where anything is timed, and nothing wakes the parent.
    """
    answers: dict[Worker, Answer] = {}
    start = time.monotonic()
    with selectors.DefaultSelector() as selector:
        buffers: dict[Worker, wire.Buffer] = {}
        for worker, request in requests.items():
            try:
                wire.send(worker.sock, request)
            except wire.Closed:
                answers[worker] = _death(worker, start)
                continue
            buffers[worker] = wire.Buffer()
            selector.register(worker.sock, selectors.EVENT_READ, worker)
            selector.register(worker.output, selectors.EVENT_READ, worker)
        deadline = time.monotonic() + timeout_s  # not from the start: a send to a dead worker has waited for its end
        while buffers and (left := deadline - time.monotonic()) > 0:
            if idle is not None:
                idle(len(answers))
            for key, _ in selector.select(left if idle is None else min(left, 1.0)):
                worker = key.data
                if worker not in buffers:
                    continue  # ended or answered earlier in this batch of events
                if key.fileobj is worker.output:
                    worker.drain()
                    if _at_end(worker.output):
                        selector.unregister(worker.output)
                elif (answer := _advance(worker, buffers[worker], start)) is not None:
                    answers[worker] = answer
                    del buffers[worker]
                    _forget(selector, worker, answer)
        for worker, buffer in buffers.items():  # reaping others takes time: an answer that came meanwhile is not late
            answer = _advance(worker, buffer, start)
            _forget(selector, worker, answer)
            answers[worker] = answer or _too_late(worker, requests[worker], timeout_s)
    return answers


def ask(worker: Worker, request: Message, timeout_s: float) -> Answer:
    """`gather` for one."""
    return gather({worker: request}, timeout_s)[worker]


def _advance(worker: Worker, buffer: wire.Buffer, start: float) -> Answer | None:
    """Read what has arrived; the answer once it is whole, or the news that the worker is gone."""
    try:
        while (message := buffer.take()) is None:
            chunk = worker.sock.recv(buffer.wanted, socket.MSG_DONTWAIT)
            if not chunk:
                return _death(worker, start)
            buffer.feed(chunk)
    except BlockingIOError:
        return None
    except OSError:
        return _death(worker, start)  # it died with the question unread: a connection reset, not the end of a stream
    except wire.Malformed as error:
        worker.end()
        return Answer(False, status=Status.CRASHED, reason=f"wrote into the harness's own channel: {error}", fatal=True)
    seconds = time.monotonic() - start
    if message.get("ok"):
        return Answer(True, message, seconds=seconds)
    try:
        status, reason = Status(message["status"]), printable(str(message["reason"]))
    except (KeyError, ValueError):
        worker.end()
        return Answer(False, status=Status.CRASHED, reason="answered nonsense", fatal=True)
    return Answer(False, message, status, reason, bool(message.get("fatal")), seconds)


def _death(worker: Worker, start: float) -> Answer:
    code = worker.end(kill=False)
    if code is None:
        how = "the process is gone, and the one that starts processes with it"
    elif code == wire.LOST_CONNECTION:
        how = "the process closed its connection to the harness"
    elif code < 0:
        how = f"the process died of {_signal_name(-code)}"
    else:
        how = f"the process ended itself with exit code {code}"
    words = f"; its last words: {worker.last_words}" if worker.last_words else ""
    return Answer(False, status=Status.CRASHED, reason=how + words, fatal=True, seconds=time.monotonic() - start)


def _signal_name(number: int) -> str:
    if number == signal.SIGKILL:
        return "SIGKILL (sent by itself, by the system when memory ran out, or by hand)"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _too_late(worker: Worker, request: Message, timeout_s: float) -> Answer:
    worker.end()
    reason = f"no answer to {request['op']!r} within {timeout_s:g} s"
    return Answer(False, status=Status.TIMEOUT, fatal=True, reason=reason)


def _forget(selector: selectors.BaseSelector, worker: Worker, answer: Answer | None) -> None:
    for target in (worker.sock, worker.output):
        try:
            selector.unregister(target)
        except (KeyError, ValueError):
            continue  # already closed or unregistered with the worker's end
    if answer is not None and answer.fatal and worker.is_alive:
        worker.end()


def _at_end(descriptor: Any) -> bool:
    """Whether the writing side is closed (an empty pipe that still has a writer is not at its end)."""
    try:
        return os.read(descriptor, 0) == b"" and _hung_up(descriptor)
    except OSError:
        return True


def _hung_up(descriptor: int) -> bool:
    import select

    poller = select.poll()
    poller.register(descriptor, select.POLLIN | select.POLLHUP)
    return any(event & select.POLLHUP and not event & select.POLLIN for _, event in poller.poll(0))


def environment_for(mode: str) -> dict[str, str]:
    """What a worker sets before any import.

    Modes: "measure", "device" (the same, to be profiled), "interpret" (Triton's interpreter), "compile" (sm_90a).
    """
    common: dict[str, Any] = {"TRITON_DEFAULT_FP_FUSION": "1", "PYTHONUNBUFFERED": "1"}
    if mode == "interpret":
        return {**common, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    if mode == "compile":
        return {**common, "CUTE_DSL_ARCH": "sm_90a", "CUDA_VISIBLE_DEVICES": ""}
    # One kernel is compiled at a time: a pool of compiler processes costs more than it brings.
    return {**common, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
