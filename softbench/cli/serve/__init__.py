"""`softbench serve`: a local queue with an HTTP interface, which runs kernel files that programs submit."""

import argparse
import errno
import os
import re
import socket
import stat
import sys
from pathlib import Path

from softbench.cli.command import Command, CommandResult, argument, whole
from softbench.texts import InputError

_LEAST_TOKEN = 16


def _run(options: argparse.Namespace) -> CommandResult:
    import starlette  # noqa: F401  # before anything is opened
    import uvicorn

    from softbench.cli.serve import app, runner  # they import the operators, which other commands do not need
    from softbench.cli.serve.jobs import Queue

    token = _token(Path(options.token_file))
    queue = Queue(Path(options.queue).absolute(), options.most_waiting)
    listener, where = _unix(Path(options.socket)) if options.socket else _local(options.port)
    print(f"softbench serve: {where}, {len(queue.waiting)} jobs wait", file=sys.stderr, flush=True)
    jobs = runner.Runner(queue, options.job_limit, options.timeout)
    quiet = {"log_level": "warning", "access_log": False, "server_header": False}
    settings = uvicorn.Config(app.build(queue, jobs, token), lifespan="on", timeout_graceful_shutdown=2, **quiet)
    try:
        uvicorn.Server(settings).run(sockets=[listener])
    finally:
        listener.close()
        queue.close()
        if options.socket:
            Path(options.socket).unlink(missing_ok=True)
    return "", 0


def _token(path: Path) -> str:
    """The token in a file that only its owner may read. Raises InputError."""
    how = f"make one: (umask 077; openssl rand -hex 32 > {path})"
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise InputError(f"--token-file: others may read {path}; chmod 600 {path}")
            token = file.read(1000).strip().decode("ascii", errors="replace")
    except OSError as error:
        raise InputError(f"--token-file: {path}: {error.strerror}; {how}") from None
    if not re.fullmatch(rf"[!-~]{{{_LEAST_TOKEN},500}}", token):
        raise InputError(f"--token-file: {path} holds no token of {_LEAST_TOKEN} to 500 visible characters; {how}")
    return token


def _unix(path: Path) -> tuple[socket.socket, str]:
    """A socket that only this user may open. One that a killed server left is replaced. Raises InputError."""
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        if path.is_socket() and not _answers(path):
            path.unlink()
        listener.bind(str(path))
        listener.listen()
    except OSError as error:
        listener.close()
        in_use = "something is there; stop it, or name another file"
        why = in_use if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise InputError(f"--socket: {path}: {why}") from None
    finally:
        os.umask(before)
    return listener, f"listening on {path}"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(str(path)) == 0


def _local(port: int) -> tuple[socket.socket, str]:
    """A port of this machine that no other one reaches. Raises InputError."""
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(f"--port: 127.0.0.1:{port}: {error.strerror}") from None
    return listener, f"listening on http://127.0.0.1:{listener.getsockname()[1]}"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r:.20} is not a time; give seconds above 0")
    return value


_PORT, _JOBS = whole("port", 0, 65535, ", 0 for a free one"), whole("number of jobs", 1, 999_999)
_LIMIT = {"metavar": "S", "type": _seconds}
COMMAND = Command(
    "serve",
    "run kernel files that programs submit, one after the other",
    (
        ("softbench serve --queue jobs --socket jobs.sock --token-file token", "on a Unix socket"),
        ("softbench serve --queue jobs --port 8750 --token-file token", "on 127.0.0.1"),
    ),
    (
        argument("--queue", metavar="DIR", required=True, help="folder of the jobs, which outlast the server"),
        argument("--socket", metavar="PATH", help="Unix socket to listen on, instead of a port"),
        argument("--port", metavar="N", type=_PORT, default=8750, help="port of 127.0.0.1 (default: %(default)s)"),
        argument("--token-file", metavar="FILE", required=True, help="file with the token that requests must show"),
        argument("--most-waiting", metavar="N", type=_JOBS, default=1000, help="jobs that may wait (default: %(default)s)"),
        argument("--job-limit", **_LIMIT, default=3600.0, help="longest time of a job (default: %(default)g)"),
        argument("--timeout", **_LIMIT, default=120.0, help="as --softbench-timeout (default: %(default)g)"),
    ),
    _run,
)
