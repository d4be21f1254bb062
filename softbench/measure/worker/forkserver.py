"""The forkserver: a process that forks workers cheaply and outlives the parent just long enough to end them.

It loads torch once and does not touch CUDA; a worker is a fork of it and starts in milliseconds. When the parent ends, kill -9
included, the control socket closes and the forkserver kills every worker with all its descendants. When the forkserver itself
is killed, the kernel kills the workers (PR_SET_PDEATHSIG).

The parent of each worker is a guard of its own, by whose pid it is known: killing it harms no other worker, and orphans become
its children, which it ends with the worker. If the kernel allows it, a worker lives in a PID namespace (`isolation.py`): it can
reach only its own processes, and none of them outlives it.

Requests, one at a time, each answered:
    {"op": "spawn", "env": {...}} with two file descriptors (the worker's socket, its output pipe)
        -> {"pid": N, "is_isolated": whether it has a namespace}
    {"op": "reap", "pid": N}      the worker has ended or been killed -> {"code": exit code, or -signal}
"""

import contextlib
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import time

from softbench.measure import procfs
from softbench.measure.worker import confining, isolation, wire, writable

_REAP_SECONDS = 2.0


def main(control_fd: int, preload: list[str], later: list[str]) -> None:
    """Serve spawn and reap requests until the parent goes away, then end everything.

    later  the same as `preload`, once the first worker runs
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    procfs.adopt_orphans()  # so that a worker's orphans can be found and killed
    _import(preload)
    control = socket.socket(fileno=control_fd)
    workers: set[int] = set()
    is_isolated, scratch = isolation.is_possible(), writable.Scratch()
    try:
        while True:
            _serve_one(control, workers, is_isolated, scratch)
            if workers and later:
                _import(later)
                later = []
    except (wire.Closed, wire.Malformed):
        pass
    finally:
        _kill_all_children()
        scratch.end()
        os._exit(0)


def _import(modules: list[str]) -> None:
    """Import what can be, and call what follows a colon; a worker that needs the others says what is wrong."""
    procfs.die_with_parent(signal.SIGKILL)  # the control socket is not read meanwhile
    for module in modules:
        with contextlib.suppress(Exception):
            if callable(found := pkgutil.resolve_name(module)):
                found()
    procfs.die_with_parent(0)


def _serve_one(control: socket.socket, workers: set[int], is_isolated: bool, scratch: writable.Scratch) -> None:
    data, fds, _, _ = socket.recv_fds(control, 1 << 20, 2)
    if not data:
        raise wire.Closed("parent is gone")
    request = json.loads(data)
    if request["op"] == "spawn":
        scratch.begin()
        pid = os.fork()
        if pid == 0:
            control.close()
            scratch.let_go()
            _become_guard(fds[0], fds[1], request["env"] | {"TMPDIR": scratch.of(os.getpid())}, is_isolated)
        for fd in fds:
            os.close(fd)
        workers.add(pid)
        answer = {"pid": pid, "is_isolated": is_isolated}
    else:
        answer = {"code": _reap(request["pid"])}
        workers.discard(request["pid"])
        _kill_strays(workers)
        scratch.end(request["pid"])
    control.sendall(json.dumps(answer).encode())


def _become_guard(worker_fd: int, output_fd: int, environment: dict[str, str], is_isolated: bool) -> None:
    """Start the worker, wait for its end, end its orphans, and end as it did."""
    try:
        os.setsid()
        procfs.die_with_parent(signal.SIGKILL)
        procfs.adopt_orphans()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.getpid()
        ending, writer = os.pipe()
        if is_isolated:
            isolation.leave()
        worker = os.fork()
        if worker == 0:
            os.close(ending)
            if is_isolated:
                _become_first(number, writer, worker_fd, output_fd, environment)
            os.close(writer)
            _become_worker(worker_fd, output_fd, environment)
        for fd in (worker_fd, output_fd, writer):
            os.close(fd)
        status = _wait_for(worker)
        _kill_group(worker)
        _kill_all_children()
        reported = os.read(ending, 20)
        code = os.waitstatus_to_exitcode(int(reported) if reported else status)
        if code < 0:
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)
    finally:
        os._exit(1)


def _become_first(number: int, ending: int, worker_fd: int, output_fd: int, environment: dict[str, str]) -> None:
    """The first process of a namespace: start the worker, and report its end, since this process cannot die of a signal."""
    try:
        procfs.die_with_parent(signal.SIGKILL)
        isolation.arrive(number)
        worker = os.fork()
        if worker == 0:
            os.close(ending)
            _become_worker(worker_fd, output_fd, environment)
        os.close(worker_fd)
        os.close(output_fd)
        os.write(ending, str(_wait_for(worker)).encode())
    finally:
        os._exit(1)


def _wait_for(worker: int) -> int:
    """The status of a child's end; others that end before it are its orphans."""
    pid, status = os.wait()
    while pid != worker:
        pid, status = os.wait()
    return status


def _become_worker(worker_fd: int, output_fd: int, environment: dict[str, str]) -> None:
    code = 1
    try:
        os.setsid()
        procfs.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        temporary = environment.pop("TMPDIR")
        os.environ.update(environment)
        confining.enter(temporary)
        from softbench.measure.worker import serving

        serving.serve(socket.socket(fileno=worker_fd))
    except wire.Closed:
        code = wire.LOST_CONNECTION
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        _flush_and_exit(code)


def _flush_and_exit(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed or replaced by the implementation
            stream.flush()
    os._exit(code)


def _reap(pid: int) -> int:
    """Exit code of a worker (negative: the signal); one that does not end by itself is killed, and counts as LOST_CONNECTION."""
    deadline = time.monotonic() + _REAP_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _kill_group(pid)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    _kill_group(pid)
    os.waitpid(pid, 0)
    return wire.LOST_CONNECTION


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill_strays(workers: set[int]) -> None:
    """Kill the orphans of dead workers: in sessions of their own, and now our children."""
    while strays := set(procfs.children(os.getpid())) - workers:
        for pid in strays:
            _kill_group(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _kill_all_children() -> None:
    deadline = time.monotonic() + _REAP_SECONDS
    while (pids := procfs.children(os.getpid())) and time.monotonic() < deadline:
        for pid in pids:
            _kill_group(pid)
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
