"""Records on disk: append-only JSON lines, the passport first, one line a cell. What is read is data, and is checked.

A run is one file, `<folder>/<run id>.jsonl`. A line that a killed process left unfinished at the end of the file is ignored; any
other line that cannot be read is an error that names it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from softbench import typed
from softbench.model import SCHEMA_VERSION, Case, Passport, Record, Run, Variant


class StoreError(ValueError):
    """A run cannot be read or written; the message names the file, the line and what to do."""


class Writer:
    """Appends to one run's file; every case reaches the disk as a whole before the next one starts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, folder: Path, passport: Passport) -> Writer:
        """A new run: its header is on disk when this returns."""
        path = folder / f"{passport.run_id}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(_line({"kind": "passport", "schema": SCHEMA_VERSION, **asdict(passport)}))
        except OSError as error:
            raise StoreError(
                f"{path}: cannot be written ({error.strerror}); choose another --softbench-reports"
            ) from None
        return cls(path)

    def append(self, records: Iterable[Record]) -> None:
        """Add the records of one case."""
        text = "".join(_line({"kind": "cell", "schema": SCHEMA_VERSION, **_record_data(record)}) for record in records)
        try:
            _end_torn_line(self.path)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written ({error.strerror}); records so far are kept") from None


def read(path: Path) -> Run:
    """A whole run; where a cell was measured again the newest record counts."""
    lines = _lines(path)
    if not lines:
        raise StoreError(f"{path}: is empty, and no run; was it truncated?")
    header = lines[0][1]
    if header.get("kind") != "passport":
        raise StoreError(f"{path}:1: is no passport; this is no softbench run")
    passport = _build(path, 1, lambda: typed.build(Passport, _content(header)))
    cells: dict[tuple[str, str], Record] = {}
    for number, data in lines[1:]:
        record = _build(path, number, lambda data=data: _record(data))  # type: ignore[misc]
        key = (record.case.id, f"{record.role == 'roof'}/{record.variant.id}")
        cells.pop(key, None)
        cells[key] = record
    return Run(passport, _without_stale_roofs(tuple(cells.values())))


def find(folder: Path, name: str) -> Path:
    """The file of a run named by path, by id, or as "latest"."""
    if name == "latest":
        runs = sorted(folder.glob("*.jsonl"), key=lambda p: p.stat().st_mtime)
        if not runs:
            raise StoreError(f"{folder}: holds no run yet")
        return runs[-1]
    for path in (Path(name), folder / name, folder / f"{name}.jsonl"):
        try:
            if path.is_file():
                return path
        except OSError:  # a name too long, a folder that may not be searched
            continue
    known = ", ".join(sorted(p.stem for p in folder.glob("*.jsonl"))[-5:]) or "none"
    raise StoreError(f"no run {name!r} in {folder}; the newest there: {known}")


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


def _lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    try:
        rows = path.read_bytes().split(b"\n")
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
    parsed = []
    for number, row in enumerate(rows, start=1):
        if not row.strip():
            continue
        try:
            data = json.loads(row.decode("utf-8"))
        except (ValueError, RecursionError):
            if number > 1 and (number == len(rows) or row.endswith(b"\x00")):
                continue  # the last write was cut off; the case is run again by --softbench-resume
            what = "is no text of a softbench run" if number == 1 else "is not JSON; remove the line to read the rest"
            raise StoreError(f"{path}:{number}: {what}") from None
        if not isinstance(data, dict):
            raise StoreError(f"{path}:{number}: is not an object; remove the line to read the rest")
        if data.get("schema") != SCHEMA_VERSION:
            found = data.get("schema")
            raise StoreError(f"{path}:{number}: has schema {found!r:.40}; this version reads {SCHEMA_VERSION}")
        parsed.append((number, data))
    return parsed


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


def _build(path: Path, number: int, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}:{number}: is no record of schema {SCHEMA_VERSION} ({error})") from None


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n"


def _record_data(record: Record) -> dict[str, Any]:
    """Only what differs from the defaults: a line stays short, and new fields stay readable."""
    data = asdict(record)
    data["status"] = record.status.value
    data["variant"] = _variant_data(record.variant)
    data["telemetry"] = [list(asdict(t).values()) for t in record.telemetry]
    return {key: value for key, value in data.items() if value not in ("", (), [], 0, None)}


def _variant_data(variant: Variant) -> dict[str, Any]:
    """Who it was, not what it asks for; the path is the one inside its folder of implementations."""
    data = asdict(variant) | {"path": f"{variant.family}/{Path(variant.path).name}"}
    return {
        key: data[key] for key in ("implementation", "operator", "family", "path", "source_hash", "params", "summary")
    }


def _record(data: dict[str, Any]) -> Record:
    record = typed.build(Record, _content(data))
    for samples in record.samples:
        if not samples.ns or not all(value > 0 for rounds in samples.ns for value in rounds):
            raise ValueError("samples must be positive")
        if samples.launches < 1:
            raise ValueError("launches must be positive")
    if min(record.case.shape, default=0) < 0:
        raise ValueError("a shape cannot be negative")
    return record


def _content(data: dict[str, Any]) -> dict[str, Any]:
    """A line without what says which kind of line it is."""
    return {key: value for key, value in data.items() if key not in ("kind", "schema")}
