"""Commands on a disk that is too small: a real filesystem where the kernel lets users mount one, a limit elsewhere."""

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv = sys.argv[4:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Before the words of `python -m MODULE`."""
_MOUNT = "mount -t tmpfs -o size=8m tmpfs {folder} && echo ready"
_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Disk:
    """`prefix` goes before a command that is to see the disk."""

    folder: Path
    prefix: tuple[str, ...] = ()
    mounting: subprocess.Popen[str] | None = None

    def fill(self, room):
        """Each file may grow by `room` bytes."""
        if self.mounting is None:
            self.prefix = (sys.executable, "-c", _LIMITED, str(room))
            return
        used = sum(-(-path.stat().st_size // PAGE) for path in self.folder.iterdir())
        total = os.statvfs(self.folder).f_blocks
        (self.folder / "filler").write_bytes(bytes((total - used - room // PAGE) * PAGE))

    def clear(self):
        self.prefix = ()
        (self.folder / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def small(folder, kind=None):
    """A disk in the place of a folder: "tmpfs", or "limit": no file may grow beyond the room that is left."""
    kind = kind or best()
    folder.mkdir()
    if kind == "limit":
        yield Disk(folder)
        return
    script = f"{_MOUNT} && exec sleep 600".format(folder=folder)
    with subprocess.Popen([*_UNSHARE, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            yield Disk(Path(f"/proc/{process.pid}/root{folder}"), mounting=process)
        finally:
            process.kill()


@lru_cache(maxsize=1)
def best():
    command = [*_UNSHARE, _MOUNT.format(folder="/mnt")]
    try:
        can_mount = subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        can_mount = False
    return "tmpfs" if can_mount else "limit"
