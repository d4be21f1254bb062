"""Commands on a disk that is too small: a real filesystem where the kernel lets users mount one, and a limit everywhere."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""
_MOUNTED = "mount -t tmpfs -o size={size} tmpfs {folder} && echo ready && exec sleep 600"
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Disk:
    """`prefix` goes before a command that is to see the disk; `folder` is where it lies for everybody else."""

    folder: Path
    prefix: tuple[str, ...]
    pid: int = 0

    def fill(self, room: int) -> None:
        """Let each file grow by `room` bytes; with 0 not at all."""
        if not self.pid:
            self.prefix = (sys.executable, "-c", _LIMITED, str(room))
            return
        used = sum(-(-path.stat().st_size // PAGE) for path in self.folder.iterdir())
        total = os.statvfs(self.folder).f_blocks
        (self.folder / "filler").write_bytes(bytes((total - used - room // PAGE) * PAGE))

    def clear(self) -> None:
        if self.pid:
            (self.folder / "filler").unlink()
        else:
            self.prefix = ()

    def make_read_only(self) -> None:
        subprocess.run([*self.prefix, "mount", "-o", "remount,ro", str(self.folder)], check=True)


@contextlib.contextmanager
def small(folder: Path, kind: str) -> Iterator[Disk]:
    """A disk in the place of a folder: "tmpfs", or "limit", where no file may grow beyond the room that is left."""
    folder.mkdir()
    if kind == "limit":
        yield Disk(folder, ())
        return
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNTED.format(size="8m", folder=folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        enter = (
            "nsenter",
            "-t",
            str(process.pid),
            "--user",
            "--mount",
            "--preserve-credentials",
            f"--wd={folder.parent}",
        )
        try:
            yield Disk(Path(f"/proc/{process.pid}/root{folder}"), enter, process.pid)
        finally:
            process.kill()


@lru_cache(maxsize=1)
def kinds() -> list[str]:
    """Those that this machine allows; a limit always."""
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs tmpfs /mnt && nsenter --version",
    ]
    try:
        can_mount = subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        can_mount = False
    return ["limit", "tmpfs"] if can_mount else ["limit"]
