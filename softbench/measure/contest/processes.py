"""The parent's handles of processes: the forkserver that forks workers, and each worker with its socket and its output."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from softbench.cases import environments
from softbench.measure import procfs
from softbench.measure.contest.orphans import Orphans
from softbench.measure.worker import writable
from softbench.measure.worker.traces import FAULT
from softbench.texts import printable

START_TIMEOUT_S, _REAP_TIMEOUT_S, _SAY_S = 90.0, 20.0, 0.5
_MOST_PRINTED = 16_000
"""Bytes of what a worker prints that are kept: the last ones."""
ONE_COMPILER = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Otherwise Inductor starts 16 processes for one kernel: on an H200's host all that start then took 2 s longer."""
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP}
"""Signals that a process causes by a fault of its own."""
_FIND = f"""
import importlib.util as of, json, sys
place = {str(Path(__file__).resolve().parents[2])!r}
spec = of.spec_from_file_location("softbench", place + "/__init__.py", submodule_search_locations=[place])
sys.modules["softbench"] = of.module_from_spec(spec)
spec.loader.exec_module(sys.modules["softbench"])
"""
"""Finds this softbench, but not what is installed beside it."""
_BOOT = "from softbench.measure.worker.forkserver import main; main(**json.loads(sys.argv[1]))"


def program(text: str, argument: object, python: str = "") -> tuple[list[str], dict[str, str]]:
    """The command by which a python, "" for this one, runs a text with this softbench; and its variables."""
    variables = environments.variables(python) if python else dict(os.environ)
    return [python or sys.executable, "-c", _FIND + text, json.dumps(argument)], variables


class ForkserverError(RuntimeError):
    """Workers cannot be started at all."""


class Forkserver:
    """The process that forks workers, and ends them when this process ends; see `softbench.measure.worker.forkserver`."""

    def __init__(self, preload: list[str], environment: Mapping[str, str], later: Sequence[str] = (), python: str = "") -> None:
        ours, theirs = socket.socketpair()
        argument = {"control_fd": theirs.fileno(), "preload": preload, "later": list(later)}
        command, variables = program(_BOOT, argument, python)
        self._control = ours
        self._has_answered = False
        self._orphans = Orphans()
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], start_new_session=True, stdin=subprocess.DEVNULL, env=variables | dict(environment)
        )
        self._orphans.begin(self._process.pid)
        theirs.close()

    def spawn(self, environment: Mapping[str, str]) -> tuple[int, bool, socket.socket, int]:
        """A new worker: its pid, whether it is isolated from other workers, its socket, the reading end of its output."""
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            request = json.dumps({"op": "spawn", "env": dict(environment)}).encode()
            self._control.settimeout(START_TIMEOUT_S)
            socket.send_fds(self._control, [request], [theirs.fileno(), writer])
            answer = json.loads(self._control.recv(1 << 16))
            pid, is_isolated = int(answer["pid"]), bool(answer["is_isolated"])
        except (OSError, ValueError) as error:
            ours.close()
            os.close(reader)
            raise ForkserverError(f"workers cannot be started: {error or 'no answer'}") from None
        finally:
            theirs.close()
            os.close(writer)
        self._has_answered = True
        return pid, is_isolated, ours, reader

    def reap(self, pid: int) -> int | None:
        """Exit code of an ended worker (negative: the signal), None if the forkserver is gone."""
        try:
            self._control.settimeout(_REAP_TIMEOUT_S)
            self._control.sendall(json.dumps({"op": "reap", "pid": pid}).encode())
            answer = self._control.recv(1 << 16)
        except OSError:
            return None
        return int(json.loads(answer)["code"]) if answer else None

    @property
    def tree(self) -> set[int]:
        """The forkserver and all its descendants."""
        return set(procfs.tree(self._process.pid))

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def dismiss(self) -> None:
        """Let every worker end, while this process does something else: on an H200 it takes a second."""
        self._control.close()

    def close(self) -> None:
        """End every worker, and return when they are gone."""
        self.dismiss()
        if not self._has_answered:
            self._process.kill()  # still importing, which may take many seconds, and without workers
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._orphans.end(was_killed=self._has_answered and code != 0)
        if code:
            writable.remove_left()


class Worker:
    """One worker process. Use `gather` to talk to it."""

    def __init__(self, forkserver: Forkserver, environment: Mapping[str, str]) -> None:
        self._forkserver = forkserver
        self.pid, self.is_isolated, self.sock, self.output = forkserver.spawn(environment)
        self.is_alive = True
        self.author: Worker | None = None
        """Of a referee: the worker whose hand-overs it takes."""
        self._printed = b""
        self.is_lost = False
        """The forkserver has ended with it, or does not answer."""
        self.was_killed = False
        """It was ended by a signal from outside, not by a fault of its own; or it was stopped."""

    def drain(self) -> None:
        """Read what the worker printed; only the end is kept."""
        for _ in range(64):
            try:
                chunk = os.read(self.output, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            self._printed = (self._printed + chunk)[-_MOST_PRINTED:]

    def forget_output(self) -> None:
        """Forget what was printed before a case is sent."""
        self.drain()
        self._printed = b""

    @property
    def printed(self) -> str:
        return self._printed.decode(errors="replace")

    def cpu_ns(self) -> int:
        """Processor time so far of its processes, ended ones included; in steps of 10 ms."""
        return sum(procfs.cpu_ns(procfs.stat(pid)) for pid in procfs.tree(self.pid))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes, its guard included."""
        for pid in procfs.tree(self.pid) if self.is_alive else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def note_stop(self) -> None:
        self.was_killed |= any(procfs.stat(pid)[:1] == ["T"] for pid in procfs.tree(self.pid))

    def say_where(self) -> None:
        """Have the process print where it is: Python's fault handler does so, and ends it."""
        pid = self.pid
        for _ in range(2 if self.is_isolated else 1):  # from its guard down
            pid = next(iter(procfs.children(pid)), 0)
        deadline = time.monotonic() + _SAY_S
        if pid and not self.was_killed:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGABRT)
            while procfs.stat(pid)[:1] not in ([], ["Z"]) and time.monotonic() < deadline:
                time.sleep(0.005)
                self.drain()

    @property
    def last_words(self) -> str:
        """The last line that the process itself printed and that says something."""
        lines = [line.strip() for line in self.printed.rsplit(FAULT, 1)[0].splitlines() if line.strip()]
        return printable(lines[-1])[:200] if lines else ""

    def end(self, *, kill: bool = True) -> int | None:
        """End the process and its group; its exit code."""
        if not self.is_alive:
            return None
        self.is_alive = False
        if kill:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.sock.close()
        code = self._forkserver.reap(self.pid)
        self.is_lost = code is None
        self.was_killed |= not kill and code is not None and code < 0 and -code not in FAULTS
        self.drain()
        os.close(self.output)
        return code


def environment_for(mode: str) -> dict[str, str]:
    """What a worker sets before any import.

    Modes: "measure", "device" (the same, to be profiled), "interpret" (Triton's interpreter), "compile" (sm_90a).
    """
    own = {
        "interpret": {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        "compile": {"CUTE_DSL_ARCH": "sm_90a", "CUDA_VISIBLE_DEVICES": ""},
    }.get(mode, ONE_COMPILER)
    return {"TRITON_DEFAULT_FP_FUSION": "1", "PYTHONUNBUFFERED": "1", **own}
