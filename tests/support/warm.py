"""Processes that start within milliseconds: forks of a server that has imported torch and pytest, in place of a fresh Python.

A `Popen` starts `python -m MODULE ...` and `python -c CODE ...` so. The process is a child of the one that asks, like any other,
with the given folder, environment and files. Each has a server of its own, from which the workers of pytest-xdist and the
forkserver of its run start: as they would be fresh, and not as forks of a run. Other commands start as usual.

Not for what depends on a real start: limits, mounts, what is imported when, and variables that Python itself reads.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import termios
import types
from pathlib import Path
from typing import ClassVar

IMPORTED = (
    "torch",
    "pytest",
    "plotly.offline",
    "softbench.session.session",
    "softbench.session.bench",
    "softbench.render.report",
    "softbench.measure.worker.handler",
)
"""No plugin of pytest, which could not rewrite its assertions any more."""
MARK = "SOFTBENCH_TEST_MARK"
"""In the environment of a process and of all that it starts: by this a test finds them."""
HEARD = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
"""All that a process says, in one pipe."""
_ROOM = 1024
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37


class Popen(subprocess.Popen):
    server: ClassVar[socket.socket]

    def _execute_child(self, args, *rest):
        words = [word for word in args[1:] if word not in ("-u", "-B")]
        if args[0] != sys.executable or words[0] not in ("-c", "-m"):
            super()._execute_child(args, *rest)
            return
        pass_fds, cwd, env, *_ = rest[3:]
        pipes, new_session = rest[9:15], rest[20]
        files = {n: fd if fd != -1 else n for n, fd in enumerate((pipes[0], pipes[3], pipes[5]))}
        files |= {fd: fd for fd in pass_fds}
        how = {"words": words, "cwd": str(cwd or os.getcwd()), "env": dict(os.environ if env is None else env)}
        request = json.dumps(how | {"files": list(files), "new_session": new_session, "is_leaf": bool(pass_fds)})
        libc, before = ctypes.CDLL(None), ctypes.c_int()
        libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the grandchild of the server becomes a child of this process
        try:
            socket.send_fds(self.server, [request.encode()], list(files.values()))
            self.pid = int(self.server.recv(20))
        finally:
            libc.prctl(_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
        self._child_created = True
        self._close_pipe_fds(*pipes)


def _by(server):
    return type("Popen", (Popen,), {"server": server})


@functools.cache
def popen(path):
    """By a server of this process, which finds packages by this PYTHONPATH."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", MARK: " " * _ROOM}
    command = [sys.executable, __file__, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=os.environ | own)
    theirs.close()
    atexit.register(lambda: (ours.close(), process.wait()))
    return _by(ours)


def _serve(control):
    """Start what is asked for. Returns in what is started, with the request and its files."""
    while True:
        data, files, _, _ = socket.recv_fds(control, 1 << 20, 16)
        if not data:
            os._exit(0)
        reader, writer = os.pipe()
        go, gone = os.pipe()
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child == 0:
                os.close(gone)
                os.read(go, 1)  # until the one who asked is the parent
                for fd in (go, reader, writer, control.detach()):
                    os.close(fd)
                return json.loads(data), files
            os.write(writer, str(child).encode())
            os._exit(0)
        os.waitpid(middle, 0)
        for fd in (gone, go, writer, *files):
            os.close(fd)
        control.send(os.read(reader, 20))
        os.close(reader)


def _with_server(request, files):
    """Give this process a server like itself. Returns in what that one starts as well."""
    if request["is_leaf"]:
        return request, files
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        for fd in (ours.detach(), *files):
            os.close(fd)
        return _with_server(*_serve(theirs))
    theirs.close()
    subprocess.Popen = _by(ours)
    return request, files


def _become(request, files):
    """What a fresh process has from its parent."""
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD, max(request["files"]) + 1) for fd in files]
    for fd in files:
        os.close(fd)
    for fd, number in zip(above, request["files"], strict=True):
        os.dup2(fd, number)
        os.close(fd)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - as long as the process
        errors = "backslashreplace" if number == 2 else "strict"
        text = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=number == 2 or os.isatty(number))
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    if request["new_session"]:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    _show(request["env"].get(MARK, ""))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()


def _show(mark):
    """Write a mark into what the kernel shows as this environment, where a place was kept for it."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    place = ctypes.string_at(start, end - start).index(f"\0{MARK}=".encode()) + len(MARK) + 2
    ctypes.memmove(start + place, mark.encode().ljust(_ROOM, b"\0"), _ROOM)


def _run(how, what, *arguments):
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = [how, *arguments]
    own = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["" if how == "-c" else os.getcwd(), *own, *(path for path in sys.path[1:] if path not in own)]
    if how == "-c":
        exec(what, vars(main))
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def _end(code):
    """Nothing that was imported before is torn down."""
    for stream in (sys.__stdout__, sys.__stderr__):
        stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def main(control):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in IMPORTED:
        importlib.import_module(name)
    from softbench.measure.check import watching

    gc.collect()
    gc.freeze()
    request, files = _serve(control)
    if not request["is_leaf"]:
        watching.PATIENCE_S = 0.05  # as for the tests themselves
    request, files = _with_server(request, files)
    _become(request, files)
    code = 1
    atexit.register(lambda: _end(code))
    try:
        _run(*request["words"])
        code = 0
    except KeyboardInterrupt:
        code = -signal.SIGINT  # as Python ends a process that nothing in it caught
        raise
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
