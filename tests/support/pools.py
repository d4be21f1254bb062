"""Forkservers without the wait: each is forked from one process that has torch, which a new Python takes seconds to import.

Such a forkserver is like any other: a child of this process in a session of its own, with its environment and its mark.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from softbench.measure import procfs
from softbench.measure.contest.orphans import Orphans
from softbench.measure.contest.processes import Forkserver
from softbench.measure.worker import forkserver
from support.paths import ROOT

MARK = "SOFTBENCH_TEST_MARK"
"""In the environment of a forkserver, and so of all that it starts: by this a test finds them."""
_ROOM = 1024
_BOOT = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
import torch, softbench.measure.worker.forkserver, softbench.measure.worker.handler
from support import pools
sys.path.pop(1)
pools.serve(int(sys.argv[2]))
"""


class Forked(Forkserver):
    """A forkserver that has torch from its first moment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        nursery = _nursery()
        ours, theirs = socket.socketpair()
        self._control, self._has_answered, self._orphans = ours, False, Orphans()
        request = {"env": {**os.environ, **environment}, "cwd": os.getcwd(), "parent": os.getpid()}
        socket.send_fds(nursery, [json.dumps(request).encode()], [theirs.fileno()])
        self._process = _Adopted(int(nursery.recv(99)))  # type: ignore[assignment]
        self._orphans.begin(self._process.pid)
        theirs.close()


class _Adopted:
    """What a forkserver asks of its `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid, self._code = pid, None

    def poll(self) -> Any:
        if self._code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code

    def wait(self, timeout: float = float("inf")) -> int:
        start = time.monotonic()
        while self.poll() is None:
            if time.monotonic() - start > timeout:
                raise subprocess.TimeoutExpired("", timeout)
            time.sleep(0.002)
        return int(self.poll())

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


@functools.cache
def _nursery() -> socket.socket:
    """The connection to the process that has torch; it lives as long as this one."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps([str(ROOT), str(ROOT / "tests")]), str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, MARK: " " * _ROOM},
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def serve(control_fd: int) -> None:
    """Fork forkservers until the parent goes away. Between them and this process is one that ends: the parent adopts them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    procfs.die_with_parent(signal.SIGKILL)
    control = socket.socket(fileno=control_fd)
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1 << 20, 1)
        if not data:
            os._exit(0)
        reader, writer = os.pipe()
        if (between := os.fork()) == 0:
            if pid := os.fork():
                os.write(writer, str(pid).encode())
                os._exit(0)
            for fd in (reader, writer, control_fd):
                os.close(fd)
            _become_forkserver(fds[0], **json.loads(data))
        os.waitpid(between, 0)
        control.sendall(os.read(reader, 99))
        for fd in (fds[0], reader, writer):
            os.close(fd)


def _become_forkserver(control_fd: int, env: dict[str, str], cwd: str, parent: int) -> None:
    try:
        while os.getppid() != parent:
            time.sleep(0.001)
        os.setsid()
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        _show(env.get(MARK, ""))
        forkserver.main(control_fd, [])
    finally:
        os._exit(1)


def _show(mark: str) -> None:
    """Write a mark into what the kernel shows as this process's environment, where a place was kept for it."""
    start, end = map(int, procfs.stat(os.getpid())[47:49])
    place = ctypes.string_at(start, end - start).index(f"\0{MARK}=".encode()) + len(MARK) + 2
    ctypes.memmove(start + place, mark.encode().ljust(_ROOM, b"\0"), _ROOM)
