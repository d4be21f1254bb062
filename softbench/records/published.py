"""Figures that others have published, as tables: CSV below three lines that say where they come from, and those of claims."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from softbench.records import claims
from softbench.resources import bundled_published, listed, read_utf8
from softbench.texts import InputError, printable

_HEAD = ("source", "gpu", "what")
COUNTS = ("elements", "rows", "columns")
MEASURES = ("latency_ms", "bandwidth_gb_s")
"""Columns of numbers above 0: COUNTS of whole ones, MEASURES of any; a measure may be empty."""


class PublishedError(InputError):
    """A table of published figures cannot be read; the message is one line."""


@dataclass(frozen=True)
class PublishedTable:
    """One file: the document that its figures are from, the GPU, what they are (with units), and rows of texts."""

    source: str
    gpu: str
    what: str
    rows: tuple[Mapping[str, str], ...]


def read(folder: Path) -> dict[str, PublishedTable]:
    """Every table of a folder by the stem of its file. Raises PublishedError if there is none, or one is malformed."""
    tables = {path.stem: _read(path) for path in listed(folder, "*.csv")}
    tables |= {path.stem: table for path in listed(folder, "*.yaml") if (table := _of_claims(claims.read(path))).rows}
    if not tables:
        raise PublishedError(f"{folder}: holds no published figures (*.csv)")
    return tables


def bundled() -> dict[str, PublishedTable]:
    """The tables that come with softbench, if any. Raises PublishedError if one is malformed."""
    try:
        return read(bundled_published())
    except FileNotFoundError:
        return {}


def _read(path: Path) -> PublishedTable:
    lines = read_utf8(path, PublishedError).splitlines()
    head = {}
    for number, name in enumerate(_HEAD):
        prefix = f"# {name}: "
        if number >= len(lines) or not lines[number].startswith(prefix):
            raise PublishedError(f"{path}:{number + 1}: must begin with {prefix!r}")
        head[name] = printable(lines[number].removeprefix(prefix).strip())
    try:
        rows = tuple(csv.DictReader(lines[len(_HEAD) :]))
    except csv.Error as error:
        raise PublishedError(f"{path}: is not CSV ({error})") from None
    if not rows:
        raise PublishedError(f"{path}: has no rows")
    return PublishedTable(head["source"], head["gpu"], head["what"], tuple(_rows(path, rows)))


def _of_claims(own: claims.ClaimFile) -> PublishedTable:
    """The times that a file of claims has, of cases that are named by two sizes."""
    rows = []
    for case_id, figures in own.figures.items():
        rows_by_columns, times = case_id.rpartition("-")[2].split("x"), figures.items()
        for name, text in times if len(rows_by_columns) == 2 else ():
            if text.endswith(" ms"):
                sizes = dict(zip(("rows", "columns"), rows_by_columns, strict=True))
                rows.append({**sizes, "implementation": name, "latency_ms": text.removesuffix(" ms")})
    return PublishedTable(own.source, own.gpu, own.what, tuple(rows))


def _rows(path: Path, rows: Iterable[Mapping[str, str]]) -> Iterable[Mapping[str, str]]:
    for number, row in enumerate(rows, start=len(_HEAD) + 2):
        if None in row or None in row.values():
            raise PublishedError(f"{path}:{number}: has another number of fields than the header")
        for name, text in row.items():
            is_whole = text.isdecimal() and text.isascii()
            if (name in COUNTS and not (is_whole and _is_number(text))) or (
                name in MEASURES and text and not _is_number(text)
            ):
                raise PublishedError(f"{path}:{number}: {name} cannot be {text!r:.40}")
        yield {printable(name): printable(text) for name, text in row.items()}


def _is_number(text: str) -> bool:
    """Whether it is above 0 and fits a float."""
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False
