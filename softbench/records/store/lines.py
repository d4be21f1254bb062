"""The lines of a run's file: bytes to passports and records, checked, and back.

All input is bounded: the bytes of a file and of a line, the samples and entries of a record, and by `typed` numbers and texts.
A record passes the same reader before it is written (`storable`).
"""

import gzip
import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from softbench import typed
from softbench.model import (
    DTYPES,
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    MAX_PARAMETERS,
    OPEN,
    SCHEMA_VERSION,
    SEALED,
    Case,
    Passport,
    Record,
    Status,
    Variant,
)
from softbench.texts import InputError, cut

T = TypeVar("T")
ROLES = ("entrant", "reference", "roof", "repeat")
COMPRESSED = (".xz", ".gz")
"""Suffixes of runs that are kept."""
MOST_BYTES = 2**27
"""Bytes of a run: seventy times the largest kept run. A compressed file of a few KiB may hold any number."""
MOST_LINE = 2**20
"""Bytes of a line: two hundred times the longest of a kept run."""
MOST_SAMPLES = 20_000
"""Samples of a record, all clocks together; 32 placements in 8 heats have 2048 of the ranking clock."""
MOST_ENTRIES = 1000
"""Entries of each list of a record: notes, kernels, readings, heats."""
_RUN_ID = re.compile(r"\w[\w.-]*")


class StoreError(InputError):
    """A run cannot be read or written; the message names the file, the line and what to do."""


class OtherSchema(StoreError):
    """A line was written by a version of another schema."""


class RunExists(StoreError):
    """A run of this id exists, and is not overwritten."""


class StoredLine(NamedTuple):
    """A line of a file without its line end; is_open if it has none."""

    number: int
    data: bytes
    is_open: bool


def rows(path: Path) -> list[StoredLine]:
    """The lines of a file, compressed or not, that are not blank. Raises StoreError if there are none."""
    split = _data(path).split(b"\n")
    lines = [StoredLine(number, row, number == len(split)) for number, row in enumerate(split, start=1) if row.strip()]
    if long := next((line for line in lines if len(line.data) > MOST_LINE), None):
        raise StoreError(f"{path}:{long.number}: is longer than {MOST_LINE >> 10} KiB; a line of softbench is shorter")
    if not lines:
        raise StoreError(f"{path}: is empty, and no run; was it truncated?")
    return lines


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed: such a run is read, and never written to."""
    return path.suffix in COMPRESSED


def _data(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data: bytes = file.read(MOST_BYTES + 1)
        if path.suffix == ".xz":
            data = _unpacked(data)
    except (EOFError, zlib.error):
        raise StoreError(f"{path}: is no whole {path.suffix[1:]} file") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(data) > MOST_BYTES:
        raise StoreError(f"{path}: holds more than {MOST_BYTES >> 20} MiB; a run of softbench is smaller")
    return data


def _unpacked(data: bytes) -> bytes:
    """What one stream of xz holds, up to the bytes that are too many. Raises EOFError if it is not whole."""
    import lzma  # not every Python is built with it

    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_BYTES)
    try:
        found = stream.decompress(data, MOST_BYTES + 1)
    except lzma.LZMAError:
        raise EOFError from None
    if len(found) <= MOST_BYTES and (not stream.eof or stream.unused_data):
        raise EOFError
    return found


def passport(path: Path, row: StoredLine) -> Passport:
    """The passport in the first line of a run. Raises StoreError if the line is none."""
    where = f"{path}:{row.number}"
    try:
        parsed = json.loads(row.data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise StoreError(f"{where}: is no text of a softbench run") from None
    data = _current(where, parsed)
    if data.get("kind") != "passport":
        raise StoreError(f"{where}: is no passport; this is no softbench run")
    return _build(where, _passport, data)


def cell(path: Path, row: StoredLine) -> Record | None:
    """The record of a line; None if its writing was cut off. Raises StoreError that names the line."""
    where = f"{path}:{row.number}"
    try:
        parsed = json.loads(row.data.decode("utf-8"))
    except (ValueError, RecursionError):
        if row.is_open or row.data.endswith(b"\x00"):
            return None  # --softbench-resume runs the case again
        raise StoreError(f"{where}: is not JSON") from None
    return _build(where, _record, _current(where, parsed))


def _current(where: str, data: Any) -> dict[str, Any]:
    """A line of the schema that this version writes."""
    if not isinstance(data, dict):
        raise StoreError(f"{where}: is not an object")
    if data.get("schema") != SCHEMA_VERSION:
        schemas = f"has schema {data.get('schema')!r:.40}; this version reads {SCHEMA_VERSION}"
        raise OtherSchema(f"{where}: {schemas}: use the softbench that wrote it")
    return data


def _build(where: str, make: Callable[[dict[str, Any]], T], data: dict[str, Any]) -> T:
    """What a line holds, without the fields that say which kind of line it is."""
    try:
        return make({key: value for key, value in data.items() if key not in ("kind", "schema")})
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{where}: is no record of schema {SCHEMA_VERSION} ({cut(str(error), 150)})") from None


def passport_line(run: Passport) -> bytes:
    return _line({"kind": "passport", "schema": SCHEMA_VERSION, **asdict(run)})


def cell_line(record: Record) -> bytes:
    return _line({"kind": "cell", "schema": SCHEMA_VERSION, **_record_data(record)})


def storable(record: Record) -> Record:
    """The record as it will be read; a RUNTIME_ERROR that says why if the reader would refuse it. Raises StoreError."""
    record = replace(record, reason=cut(record.reason), notes=tuple(map(cut, record.notes)))
    try:
        return _read_back(record)
    except StoreError as error:
        why = str(error).partition(" (")[2].removesuffix(")") or str(error)
        reason = f"its record cannot be kept: {why}"
    empty = replace(record, samples=(), kernels=(), telemetry=(), traffic=None, accuracy=None, notes=(), calibrations=())
    return _read_back(replace(empty, status=Status.RUNTIME_ERROR, reason=reason))


def _read_back(record: Record) -> Record:
    where = Path(record.variant.id)
    try:
        line = cell_line(record)
    except (ValueError, OverflowError) as error:  # an integer of more digits than Python writes
        raise StoreError(f"{where}: is no record ({error})") from None
    kept = cell(where, StoredLine(0, line, False)) if len(line) <= MOST_LINE else None
    if kept is None:
        raise StoreError(f"{where}: is no record (its line is longer than {MOST_LINE >> 10} KiB)")
    return kept


def _line(data: dict[str, Any]) -> bytes:
    # A command line or a parameter may hold lone surrogates; they are not worth the loss of a case.
    return (json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _record_data(record: Record) -> dict[str, Any]:
    """The fields that are not empty, 0 or None: a line stays short."""
    data = asdict(record)
    data["status"] = record.status.value
    data["variant"] = _variant_data(record.variant)
    data["telemetry"] = [list(asdict(t).values()) for t in record.telemetry]
    return {key: value for key, value in data.items() if value not in ("", (), [], 0, None)}


def _variant_data(variant: Variant) -> dict[str, Any]:
    """The variant without its requirements; the path is relative to its folder of implementations."""
    data = asdict(variant) | {"path": f"{variant.family}/{Path(variant.path).name}"}
    return {key: data[key] for key in ("implementation", "operator", "family", "path", "source_hash", "params", "summary")}


def _record(data: dict[str, Any]) -> Record:
    record = typed.build(Record, data)
    lists = (record.samples, record.kernels, record.telemetry, record.notes, record.calibrations)
    if max(map(len, lists)) > MOST_ENTRIES:
        raise ValueError(f"more than {MOST_ENTRIES} entries of a list")
    if sum(len(rounds) + 1 for samples in record.samples for rounds in samples.ns) > MOST_SAMPLES:
        raise ValueError(f"more than {MOST_SAMPLES} samples")
    for samples in record.samples:
        if not any(samples.ns) or not all(value > 0 for rounds in samples.ns for value in rounds):
            raise ValueError("samples must be positive")
        if samples.launches < 1:
            raise ValueError("launches must be positive")
    for clock in record.calibrations:
        if len(clock.known_ns) != len(clock.read_ns) or min((*clock.known_ns, *clock.read_ns), default=1) < 1:
            raise ValueError("calibrations must be positive, and in pairs")
    _check_case(record.case)
    if min(record.ideal_bytes, record.ideal_flops) < 0:
        raise ValueError("ideal bytes and flops cannot be negative")
    if record.tier not in ("", SEALED, OPEN):
        raise ValueError(f"{record.tier!r:.40} is no tier; known are {SEALED} and {OPEN}")
    if record.role not in ROLES:
        raise ValueError(f"{record.role!r:.40} is no role; known are {', '.join(ROLES)}")
    return record


def _check_case(case: Case) -> None:
    shape = case.shape
    if case.weight < 0:
        raise ValueError("a weight cannot be negative")
    if min(shape, default=0) < 0:
        raise ValueError("a shape cannot be negative")
    if len(shape) > MAX_DIMENSIONS or math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
        raise ValueError("a shape that fits no memory")
    if len(case.params) > MAX_PARAMETERS or not all(name.isidentifier() for name, _ in case.params):
        raise ValueError("parameters of a case that no operator can have")
    for dtype in (case.dtype, case.out_dtype):
        if dtype not in DTYPES:
            raise ValueError(f"{dtype!r:.40} is no dtype; known are {', '.join(DTYPES)}")


def _passport(data: dict[str, Any]) -> Passport:
    run = typed.build(Passport, data)
    checked_id(run.run_id)
    if run.cases < 0:
        raise ValueError("cases cannot be negative")
    return run


def checked_id(run_id: str) -> str:
    """The id of a run, if it is a plain file name: it names files, and must not lead out of their folder."""
    if not _RUN_ID.fullmatch(run_id):
        raise StoreError(f"{run_id!r:.60} is no id of a run: letters, digits, _, - and . are")
    return run_id
