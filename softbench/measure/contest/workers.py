"""Requests to workers: ask many at once with a deadline, read the answers, and say what a death means."""

import math
import secrets
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from softbench.measure.contest import answers
from softbench.measure.contest.processes import Worker
from softbench.measure.worker import wire
from softbench.measure.worker.wire import Message
from softbench.model import Status

Idle = Callable[[int], None] | None


@dataclass(frozen=True)
class Answer:
    """What a worker answered, or what happened to it. fatal: the process has ended or must end.

    A failure carries the traceback that the worker sent, and the end of what it printed since it was given the case.
    """

    ok: bool
    data: Message = field(default_factory=dict)
    status: Status = Status.PASSED
    reason: str = ""
    fatal: bool = False
    seconds: float = 0.0
    traceback: tuple[str, ...] = ()
    output: str = ""

    @property
    def lacks_memory(self) -> bool:
        """Whether memory was lacking, of which others may have some to give back."""
        return self.status is Status.OUT_OF_MEMORY and not self.fatal


Then = Callable[[Worker, Answer], Mapping[Worker, Message]]


@dataclass
class _Question:
    """A request under way. The answer must repeat its random id, so that nothing can be answered in advance."""

    worker: Worker
    operation: str
    start: float
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    buffer: wire.Buffer = field(default_factory=wire.Buffer)


def gather(
    requests: Mapping[Worker, Message], timeout_s: float, idle: Idle = None, then: Then | None = None
) -> dict[Worker, Answer]:
    """Ask several workers at the same time. One that dies or is late is ended, and its answer says so.

    idle is called every second with the number of answers; leave it out while anything is timed, so that the parent sleeps.
    then says what to ask behind an answer, and whom; a worker that is still busy is asked when it has answered.
    """
    with selectors.PollSelector() as selector:
        talk = _Talk(selector, timeout_s, then)
        for worker, request in requests.items():
            talk.ask(worker, request)
        while talk.under_way:
            if idle is not None:
                idle(len(talk.given))
            talk.listen(math.inf if idle is None else 1.0)
    for worker, answer in talk.given.items():
        if not answer.ok:
            if worker.is_alive:
                worker.drain()
            talk.given[worker] = replace(answer, output=worker.printed)
    return talk.given


class _Talk:
    """Questions under way, at most one to a worker, and the last answers."""

    def __init__(self, selector: selectors.BaseSelector, timeout_s: float, then: Then | None) -> None:
        self._selector, self._timeout_s, self._then = selector, timeout_s, then
        self._later: dict[Worker, Message] = {}
        self.under_way: dict[Worker, _Question] = {}
        self.given: dict[Worker, Answer] = {}

    def ask(self, worker: Worker, request: Message) -> None:
        if worker in self.under_way:
            self._later[worker] = request
            return
        question = _send(worker, request)
        if question is None:
            return self._settle(worker, _death(worker, time.monotonic()))
        self.under_way[worker] = question
        self._selector.register(worker.sock, selectors.EVENT_READ, worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)

    def listen(self, most_s: float) -> None:
        """Wait for answers, but no longer than until the first question is too late."""
        due = min(question.start for question in self.under_way.values()) + self._timeout_s
        for key, _ in self._selector.select(max(0.0, min(due - time.monotonic(), most_s))):
            worker = key.data
            if worker not in self.under_way:
                continue  # ended or answered earlier in this batch of events
            if key.fileobj is worker.output:
                worker.drain()
                if _hung_up(worker.output):
                    self._selector.unregister(worker.output)
            elif (answer := _advance(self.under_way[worker])) is not None:
                self._settle(worker, answer)
        for worker, question in list(self.under_way.items()):
            if time.monotonic() >= question.start + self._timeout_s:
                # Reaping others takes time: what came meanwhile is not late.
                self._settle(worker, _advance(question) or _too_late(question, self._timeout_s))

    def _settle(self, worker: Worker, answer: Answer) -> None:
        self.given[worker] = answer
        if self.under_way.pop(worker, None) is not None:
            for target in (worker.sock, worker.output):
                with suppress(KeyError, ValueError):  # already closed or unregistered with the worker's end
                    self._selector.unregister(target)
            if answer.fatal and worker.is_alive:
                worker.end()
        later = self._later.pop(worker, None)
        if later is not None and answer.ok:
            return self.ask(worker, later)
        for other, request in (self._then(worker, answer) if self._then is not None else {}).items():
            self.ask(other, request)


def _send(worker: Worker, request: Message) -> _Question | None:
    """Ask a worker; None if it has ended."""
    question = _Question(worker, request["op"], time.monotonic())
    if "case" in request:
        worker.forget_output()
    try:
        wire.send(worker.sock, request | {"id": question.id})
    except wire.Closed:
        return None
    return replace(question, start=time.monotonic())


def ask(worker: Worker, request: Message, timeout_s: float) -> Answer:
    return gather({worker: request}, timeout_s)[worker]


def _advance(question: _Question) -> Answer | None:
    """Read what has arrived; the answer once it is complete, or one that says that the worker has died."""
    worker, buffer = question.worker, question.buffer
    try:
        while (message := buffer.take()) is None:
            chunk = worker.sock.recv(buffer.wanted, socket.MSG_DONTWAIT)
            if not chunk:
                return _death(worker, question.start)
            buffer.feed(chunk)
        if message.pop("id", None) != question.id:
            raise wire.Malformed("an answer to what it was not asked")
    except BlockingIOError:
        return None
    except OSError:
        return _death(worker, question.start)  # with the question unread: a connection reset, not the end of a stream
    except wire.Malformed as error:
        return _nonsense(worker, f"wrote into the harness's own channel: {error}")
    return _read(question, message)


def _read(question: _Question, message: Message) -> Answer:
    """The answer to a question, validated against what such an answer may be."""
    seconds = time.monotonic() - question.start
    try:
        ok = message.pop("ok", None)
        if ok is True:
            return Answer(True, answers.read(question.operation, message), seconds=seconds)
        if ok is not False:
            raise ValueError("neither good nor bad")
        failure = answers.read_failure(message)
    except ValueError as error:
        return _nonsense(question.worker, f"answered nonsense to {question.operation!r}: {answers.cut(str(error), 100)}")
    return Answer(False, {}, failure.status, failure.reason, failure.fatal, seconds, failure.traceback)


def _nonsense(worker: Worker, reason: str) -> Answer:
    worker.end()
    return Answer(False, status=Status.CRASHED, reason=reason, fatal=True)


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


def _too_late(question: _Question, timeout_s: float) -> Answer:
    question.worker.note_stop()
    question.worker.say_where()
    question.worker.end()
    _, step, hint = answers.OPERATIONS[question.operation]
    return Answer(False, status=Status.TIMEOUT, fatal=True, reason=f"no end of {step} within {timeout_s:g} s{hint}")


def _hung_up(descriptor: Any) -> bool:
    """Whether the writing side is closed, and all is read (an empty pipe that still has a writer is not at its end)."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN | select.POLLHUP)
    return any(event & select.POLLHUP and not event & select.POLLIN for _, event in poller.poll(0))
