"""What a run shows on an emulated terminal, frame by frame."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from dataclasses import dataclass, field

import pyte

from support import warm
from support.projects import PYTHONPATH


@dataclass
class Show:
    """What was sent: raw, as a screen after each read, and all lines that are left in the end."""

    returncode: int = 0
    raw: bytes = b""
    screens: list[list[str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    is_cursor_hidden: bool = False

    def saw(self, text):
        return [screen for screen in self.screens if any(text in line for line in screen)]


def emulated(columns, lines):
    screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.5)
    return screen, pyte.ByteStream(screen)


def all_lines(screen):
    """Those that have scrolled out of sight as well."""
    gone = ["".join(line[column].data for column in range(screen.columns)) for line in screen.history.top]
    return [line.rstrip() for line in [*gone, *screen.display]]


def on_terminal(folder, *arguments, size=(80, 24), keys=lambda screen: b"", **environment):
    """size: columns and lines; keys: what is typed at the sight of a screen."""
    screen, stream = emulated(*size)
    show = Show()
    process, master = _started(folder, arguments, size, environment)
    deadline = time.monotonic() + 120
    try:
        while chunk := _read(master, deadline):
            show.raw += chunk
            stream.feed(chunk)
            show.screens.append([line.rstrip() for line in screen.display])
            if typed := keys(show.screens[-1]):
                os.write(master, typed)
        show.returncode = process.wait(timeout=max(1.0, deadline - time.monotonic()))
    finally:
        process.kill()
        process.wait()
        os.close(master)
    show.left, show.is_cursor_hidden = all_lines(screen), screen.cursor.hidden
    return show


def _started(folder, arguments, size, environment):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    options = ["--softbench", "--softbench-budget=0.2", "--softbench-impls=kernels", "-p", "no:cacheprovider"]
    dropped = ("PYTEST_XDIST", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS")
    own = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process = warm.popen(PYTHONPATH)(
        [sys.executable, "-m", "pytest", "-p", "softbench.plugin", *options, *arguments],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith(dropped)} | own | environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    return process, master


def _read(master, deadline):
    if not select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
        raise TimeoutError("the run did not end")
    try:
        return os.read(master, 1 << 16)
    except OSError:  # EIO: the other side is closed
        return b""
