"""Writes a run's file: whole cases, synced to the disk, and nothing from other writers."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from softbench.model import Passport, Record
from softbench.records.store import lines
from softbench.records.store.lines import RunExists, StoreError


class Writer:
    """Appends to the file of one run; every case reaches the disk as a whole before the next one starts.

    It remembers the content of the file, because implementations run with the user's rights and may change it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content: bytes | None = None
        self._lock: int | None = None

    @classmethod
    def create(cls, folder: Path, passport: Passport) -> Writer:
        """A new run, with its header on the disk; if that fails, no file is left.

        Raises StoreError: RunExists if the id is taken.
        """
        writer = cls(folder / f"{lines.checked_id(passport.run_id)}.jsonl")
        writer._begin(passport)
        return writer

    def rewrite(self, passport: Passport, records: Iterable[Record]) -> None:
        """Write a whole run where there is none. Raises StoreError."""
        self._begin(passport)
        self.append(records)

    def _begin(self, passport: Passport) -> None:
        header = lines.passport_line(passport)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("xb", buffering=0) as file:
                try:
                    _write(file, header)
                except OSError:
                    self.path.unlink()  # a file without its header would be the latest run, and unreadable
                    raise
        except OSError as error:
            kind = RunExists if isinstance(error, FileExistsError) and self.path.exists() else StoreError
            raise self._failure(error, "choose another --softbench-reports", kind) from None
        self._content = header

    def _failure(self, error: OSError, advice: str, kind: type[StoreError] = StoreError) -> StoreError:
        return kind(f"{self.path}: cannot be written ({error.strerror}); {advice}")

    def lock(self) -> None:
        """Prevent other commands from adding to the run until `unlock`, or the end of this process.

        Raises StoreError if another command holds the lock. A file system without locks prevents nothing.
        """
        while not self._is_locked:
            self.unlock()
            try:
                self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.unlock()
                raise StoreError(f"{self.path}: another command is adding to this run; wait until it ends") from None
            except OSError:
                return

    @property
    def _is_locked(self) -> bool:
        """Whether the file at the path is the one that was locked, and not a replacement."""
        try:
            return self._lock is not None and os.path.samestat(os.fstat(self._lock), self.path.stat())
        except OSError:
            return False

    def unlock(self) -> None:
        """Let others add to the run."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def hold(self) -> str:
        """Restore the file if others have changed it; returns "was removed", "was changed" or "". Raises StoreError."""
        if self._content is None:
            try:
                self._content = _without_torn_line(self.path)
            except OSError as error:
                raise StoreError(f"{self.path}: cannot be written ({error.strerror})") from None
            return ""
        if self._is_as_written(self._content):
            return ""
        what = "was changed" if self.path.exists() else "was removed"
        self._put(self._content)
        return what

    def _is_as_written(self, content: bytes) -> bool:
        try:
            return self.path.stat().st_size == len(content) and self.path.read_bytes() == content
        except OSError:
            return False

    def _put(self, content: bytes) -> None:
        rest = self.path.with_name(f"{self.path.name}.rewritten")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with rest.open("wb", buffering=0) as file:
                _write(file, content)
            rest.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                rest.unlink()
            raise self._failure(error, "choose another --softbench-reports") from None
        self._content = content
        if self._lock is not None:
            self.lock()

    def relabel(self, passport: Passport) -> None:
        """Replace the header of the run; the records stay the same. Raises StoreError."""
        self.hold()
        _, _, cells = (self._content or b"").lstrip().partition(b"\n")
        self._put(lines.passport_line(passport) + cells)

    def append(self, records: Iterable[Record]) -> None:
        """Add the records of one case: all of them, or none and StoreError."""
        data = b"".join(map(lines.cell_line, records))
        try:
            if self._content is None:
                self.hold()
            known = self._content or b""
            if len(known) + len(data) > lines.MOST_BYTES:
                most = f"{lines.MOST_BYTES >> 20} MiB"
                raise StoreError(f"{self.path}: holds as much as a run can, {most}; start another")
            with self.path.open("rb+", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                try:
                    _write(file, data)
                except OSError:
                    file.truncate(size)
                    raise
        except OSError as error:
            raise self._failure(error, "records so far are kept, and --softbench-resume goes on") from None
        self._content = known + data


def _without_torn_line(path: Path) -> bytes:
    """The content of a file, after an unfinished last line was cut off from it: the next record would be joined to it.

    A line that only lacks its end is whole, since no prefix of a JSON object is a JSON object.
    """
    with path.open("rb+") as file:
        data = file.read()
        if not data or data.endswith(b"\n"):
            return data
        start = data.rfind(b"\n") + 1
        try:
            json.loads(data[start:].decode("utf-8"))
        except (ValueError, RecursionError):
            file.truncate(start)
            return data[:start]
        file.write(b"\n")
        return data + b"\n"


def _write(file: IO[bytes], data: bytes) -> None:
    """Write all of it, and sync."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())
