"""Records on disk: append-only JSON lines, the passport first, then one line per cell. All that is read is checked.

A run is one file, `<folder>/<run id>.jsonl`, or compressed, with `.xz` or `.gz` after that. An unfinished last line, left by a
killed process, is ignored; any other line that cannot be read is an error that names it, and `mend` sets it aside.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from softbench.model import Case, Passport, Record, Run, Variant, limits
from softbench.records.store import lines
from softbench.records.store.lines import OtherSchema, RunExists, StoreError, storable
from softbench.records.store.writer import Writer
from softbench.resources import listed

__all__ = [
    "OtherSchema",
    "RunExists",
    "StoreError",
    "Writer",
    "as_written",
    "find",
    "finished",
    "header",
    "load",
    "mend",
    "packed",
    "read",
    "run_name",
    "runs",
    "storable",
]

_SUFFIXES = (".jsonl", *(f".jsonl{suffix}" for suffix in lines.COMPRESSED))
_REMEDY = "remove the line to read the rest, or --softbench-resume the run, which does so and measures its case again"


def load(run: str | Path, reports: str | Path = "reports") -> Run:
    """A run as `softbench show` reads it: its passport, and the newest record of each cell.

    run      path of its file, compressed or not; its id; or "latest", the file that was written last
    reports  the folder in which an id or "latest" is looked up

    Times are integers of nanoseconds, as measured; a `Samples` holds those of all its launches together::

        run = softbench.load("latest")
        for record in run.records:
            for samples in record.clock(run.passport.ranking_clock):
                print(record.case.id, record.variant.id, [ns / samples.launches for ns in samples.ns[0]])

    Raises StoreError, a ValueError of one line, if there is no such run, or if its file is of another kind or is damaged: the
    line names the file and the line in it, and says what to do.
    """
    return read(find(Path(reports), str(run)))


def read(path: Path) -> Run:
    """A whole run, with the newest record of each cell. Times that `limits` calls impossible make a record INCORRECT."""
    return limits.without_impossible(as_written(path))


def as_written(path: Path) -> Run:
    """A whole run as `read` reads it, with impossible times as they are."""
    rows = lines.rows(path)
    passport = lines.passport(path, rows[0])
    cells: dict[tuple[str, str], Record] = {}
    for row in rows[1:]:
        try:
            record = lines.cell(path, row)
        except StoreError as error:
            raise type(error)(f"{error}; {_REMEDY}") from None
        if record is not None:
            cells.pop(record.key, None)
            cells[record.key] = record
    records, repeats = ([r for r in cells.values() if (r.role == "repeat") is again] for again in (False, True))
    roofs = {record.case for record in records if record.role == "roof"}
    if roofs and (last := records[-1].case).timed and last not in roofs:  # its writing was cut off
        records = [record for record in records if record.case != last]
    return Run(passport, _without_stale_roofs(records), tuple(repeats))


def packed(run: Run) -> bytes:
    """The file of a run, compressed as .xz."""
    import lzma  # not every Python is built with it

    cells = map(lines.cell_line, (*run.records, *run.repeats))
    return lzma.compress(b"".join((lines.passport_line(run.passport), *cells)))


def header(path: Path) -> Passport:
    """The passport of a run; the other lines are not read."""
    return lines.passport(path, lines.rows(path)[0])


def mend(path: Path) -> tuple[str, ...]:
    """Move the lines that `read` would refuse to a file next to the run; returns what was wrong with each.

    Their cells count as not measured. The other lines stay the same, byte by byte.
    """
    if lines.is_compressed(path):
        raise StoreError(f"{path}: is compressed, so that nothing can be added to it; unpack it to go on with the run")
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
            with target.open(mode) as file:
                file.writelines(row + b"\n" for row in kept)
                file.flush()
                os.fsync(file.fileno())
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
    for path in (Path(name), folder / name, *(folder / f"{name}{suffix}" for suffix in _SUFFIXES)):
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # a name too long, a folder that may not be searched, a NUL
            continue
    newest = ", ".join(map(run_name, known[-5:])) or "none"
    raise StoreError(f"no run {name!r:.60} in {folder}; the newest there: {newest}")


def runs(folder: Path) -> list[Path]:
    """The files of a folder's runs, sorted by name."""
    return sorted((path for suffix in _SUFFIXES for path in listed(folder, f"*{suffix}")), key=run_name)


def run_name(path: Path) -> str:
    """The name of a run's file without its suffixes."""
    name = path.name.removesuffix(path.suffix) if lines.is_compressed(path) else path.name
    return name.removesuffix(".jsonl")


def finished(run: Run, case: Case, variants: Sequence[Variant]) -> bool:
    """Whether every variant has a record of the same case and source.

    A timed case also needs the record of its roof: without it the last write was cut off.
    """
    theirs = [r for r in run.records if r.case == case]
    have = {r.variant.id: r for r in theirs if r.role != "roof"}
    if case.timed and not any(r.role == "roof" for r in theirs):
        return False
    return all(v.id in have and have[v.id].variant.source_hash == v.source_hash for v in variants)


def _without_stale_roofs(records: Sequence[Record]) -> tuple[Record, ...]:
    """Drop all roofs of a case but the last: a case that ran twice may have chosen another roof kernel."""
    last = {r.case.id: r.variant.id for r in records if r.role == "roof"}
    return tuple(r for r in records if r.role != "roof" or last[r.case.id] == r.variant.id)
