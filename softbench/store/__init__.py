"""Records on disk: append-only JSON lines, the passport first, one line a cell. What is read is data, and is checked.

A run is one file, `<folder>/<run id>.jsonl`; one that is kept may be compressed, `<run id>.jsonl.gz`. A line that a killed process
left unfinished at the end of the file is ignored; any other line that cannot be read is an error that names it, and `mend` sets it
aside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from softbench import limits
from softbench.model import Case, Passport, Record, Run, Variant
from softbench.resources import listed
from softbench.store import lines
from softbench.store.lines import RunExists, StoreError

__all__ = ["RunExists", "StoreError", "Writer", "find", "finished", "header", "mend", "read", "run_name", "runs"]

_REMEDY = "remove the line to read the rest, or --softbench-resume the run, which does so and measures its case again"


class Writer:
    """Appends to one run's file; every case reaches the disk as a whole before the next one starts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, folder: Path, passport: Passport) -> Writer:
        """A new run: its header is on disk when this returns, and nothing is where it cannot be written.

        Raises StoreError, and of that RunExists where the id is taken.
        """
        writer = cls(folder / f"{lines.checked_id(passport.run_id)}.jsonl")
        writer._begin(passport)
        return writer

    def restore(self, passport: Passport, records: Iterable[Record]) -> None:
        """Write the whole run once more where its file, or the folder, was removed."""
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
                    self.path.unlink()  # a file without its header would be the latest run, and none
                    raise
        except OSError as error:
            kind = RunExists if isinstance(error, FileExistsError) and self.path.exists() else StoreError
            raise kind(
                f"{self.path}: cannot be written ({error.strerror}); choose another --softbench-reports"
            ) from None

    def relabel(self, passport: Passport) -> None:
        """Put another header in place of the run's own; its records stay as they are. Raises StoreError."""
        rest = self.path.with_name(f"{self.path.name}.relabelled")
        try:
            _, _, cells = self.path.read_bytes().lstrip().partition(b"\n")
            with rest.open("wb", buffering=0) as file:
                _write(file, lines.passport_line(passport) + cells)
            rest.replace(self.path)
        except OSError as error:
            rest.unlink(missing_ok=True)
            raise StoreError(f"{self.path}: its header cannot be written ({error.strerror})") from None

    def append(self, records: Iterable[Record]) -> None:
        """Add the records of one case: all of them, or with StoreError none."""
        data = b"".join(map(lines.cell_line, records))
        try:
            _end_torn_line(self.path)
            with self.path.open("rb+", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                try:
                    _write(file, data)
                except OSError:
                    file.truncate(size)
                    raise
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be written ({error.strerror}); records so far are kept, and --softbench-resume goes on"
            ) from None


def read(path: Path) -> Run:
    """A whole run; where a cell was measured again the newest record counts. What `limits` calls impossible is INCORRECT."""
    rows = lines.rows(path)
    passport = lines.passport(path, rows[0])
    cells: dict[tuple[str, str], Record] = {}
    for row in rows[1:]:
        try:
            record = lines.cell(path, row)
        except StoreError as error:
            raise StoreError(f"{error}; {_REMEDY}") from None
        if record is not None:
            key = (record.case.id, f"{record.role == 'roof'}/{record.variant.id}")
            cells.pop(key, None)
            cells[key] = record
    return limits.held(Run(passport, _without_stale_roofs(tuple(cells.values()))))


def header(path: Path) -> Passport:
    """The passport of a run, whatever else its file holds."""
    return lines.passport(path, lines.rows(path)[0])


def mend(path: Path) -> tuple[str, ...]:
    """Set aside the lines that `read` would refuse, in a file beside the run; what was wrong with each.

    Their cells count as not measured. The lines that are left stay as they are, byte by byte.
    """
    if lines.is_compressed(path):
        raise StoreError(f"{path}: is compressed, so that nothing can be added to it; gunzip it to go on with the run")
    rows = lines.rows(path)
    whole, damaged, why = [rows[0].data], [], []
    for row in rows[1:]:
        try:
            if lines.cell(path, row) is not None:
                whole.append(row.data)
        except StoreError as error:
            damaged.append(row.data)
            why.append(str(error))
    if not damaged:
        return ()
    aside, rest = path.with_name(f"{path.name}.damaged"), path.with_name(f"{path.name}.mended")
    try:
        for target, kept, mode in ((aside, damaged, "ab"), (rest, whole, "wb")):
            with target.open(mode, buffering=0) as file:
                _write(file, b"".join(row + b"\n" for row in kept))
        rest.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: its damaged lines cannot be set aside ({error.strerror})") from None
    return tuple(why)


def find(folder: Path, name: str) -> Path:
    """The file of a run named by path, by id, or as "latest"."""
    known = runs(folder)
    if name == "latest":
        if not known:
            raise StoreError(f"{folder}: holds no run yet")
        # A clone writes many files within a tick of the file system's clock; their names begin with their times.
        return max(known, key=lambda path: (path.stat().st_mtime_ns, path.name))
    for path in (Path(name), folder / name, folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"):
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # a name too long, a folder that may not be searched, a NUL
            continue
    newest = ", ".join(map(run_name, known[-5:])) or "none"
    raise StoreError(f"no run {name!r:.60} in {folder}; the newest there: {newest}")


def runs(folder: Path) -> list[Path]:
    """The files of a folder's runs, sorted by name."""
    return sorted(listed(folder, "*.jsonl") + listed(folder, "*.jsonl.gz"), key=run_name)


def run_name(path: Path) -> str:
    """The name of a run's file without what says that it is one."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def finished(run: Run, case: Case, variants: Sequence[Variant]) -> bool:
    """Whether a case needs no second run: every variant has a record, of the same case and the same source.

    A timed case has its roof's record as well, or its last write was cut off.
    """
    theirs = [r for r in run.records if r.case == case]
    have = {r.variant.id: r for r in theirs if r.role != "roof"}
    if case.timed and not any(r.role == "roof" for r in theirs):
        return False
    return all(v.id in have and have[v.id].variant.source_hash == v.source_hash for v in variants)


def _without_stale_roofs(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """A case that ran twice may have chosen another roof kernel the second time; the last one counts."""
    last = {r.case.id: r.variant.id for r in records if r.role == "roof"}
    return tuple(r for r in records if r.role != "roof" or last[r.case.id] == r.variant.id)


def _end_torn_line(path: Path) -> None:
    """Drop an unfinished last line before appending, or the next record would be glued to it.

    A line that lacks nothing but its end is whole, as a prefix of a JSON object never is one.
    """
    with path.open("rb+") as file:
        data = file.read()
        if not data or data.endswith(b"\n"):
            return
        start = data.rfind(b"\n") + 1
        try:
            json.loads(data[start:].decode("utf-8"))
        except (ValueError, RecursionError):
            file.truncate(start)
        else:
            file.write(b"\n")


def _write(file: IO[bytes], data: bytes) -> None:
    """All of it, onto the disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())
