"""A worker's loop: it answers requests until the parent ends."""

import os
import socket

from softbench.measure import procfs
from softbench.measure.sealed.author import Author
from softbench.measure.worker import faults, loading, process_limits, wire
from softbench.measure.worker.authoring import AuthorHandler
from softbench.measure.worker.handler import RequestHandler, context_is_dead
from softbench.measure.worker.refereeing import RefereeHandler
from softbench.measure.worker.wire import Message

REFEREE = "referee"
"""What the role of a worker begins with that imports no implementation; others are authors."""


def serve(sock: socket.socket) -> None:
    """Answer requests; raises Closed when the parent ends. The first request, "hello", names the device."""
    process_limits.set_always()
    faults.speak_up()
    handler: RequestHandler | None = None
    pid = os.getpid()
    while True:
        request = wire.receive(sock)
        identity = request.pop("id", "")
        try:
            if handler is None:
                handler = _made(request["device"], request.get("role", ""))
            answer = handler.handle(request)
        except BaseException as error:  # sys.exit at import is a failure of the cell as well
            answer = _failure(error, handler.phase if handler else "start")
        if os.getpid() != pid:
            os._exit(0)  # a fork that the implementation left running: only one process may answer
        wire.send(sock, answer | {"id": identity})


def _made(device: str, role: str) -> RequestHandler:
    """The handler of a worker; made before it has a context, and before it imports any implementation."""
    procfs.name("sb-referee" if role.startswith(REFEREE) else "sb-author")
    if device == "cuda" and role.startswith(REFEREE):
        return RefereeHandler(device)
    handler = AuthorHandler(device, Author() if device == "cuda" else None)
    if device == "cpu":
        process_limits.bound_memory()
    return handler


def _failure(error: BaseException, phase: str) -> Message:
    if type(error) is loading.SourcesChanged:
        return {"ok": False, "status": "RUNTIME_ERROR", "reason": str(error), "fatal": False}
    status, reason = faults.classify(error, phase)
    return {
        "ok": False,
        "status": status.value,
        "reason": reason,
        "traceback": faults.traceback_of(error),
        "fatal": faults.is_sticky(reason) or context_is_dead(),
    }
