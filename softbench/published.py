"""Figures that others have published, as tables on disk: CSV under three lines that say where they come from."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HEAD = ("source", "gpu", "what")


class PublishedError(ValueError):
    """A table of published figures cannot be read; the message is one line."""


@dataclass(frozen=True)
class Table:
    """One file: the document that its figures stand in, the GPU, what they are (with units), and rows of texts."""

    source: str
    gpu: str
    what: str
    rows: tuple[Mapping[str, str], ...]

    def value(self, column: str, **keys: object) -> str:
        """The text in a column of the first row whose other columns hold these. Raises PublishedError without one."""
        wanted = {name: str(value) for name, value in keys.items()}
        for row in self.rows:
            if column in row and all(row.get(name) == value for name, value in wanted.items()):
                return row[column]
        raise PublishedError(f"{self.source}: has no {column} for {', '.join(wanted.values())}")


def read(folder: Path) -> dict[str, Table]:
    """Every table of a folder by its file's stem. Raises PublishedError where there is none, or one is malformed."""
    tables = {path.stem: _table(path) for path in sorted(folder.glob("*.csv"))}
    if not tables:
        raise PublishedError(f"{folder}: holds no published figures (*.csv)")
    return tables


def _table(path: Path) -> Table:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PublishedError(f"{path}: cannot be read ({error})") from None
    head = {}
    for number, name in enumerate(_HEAD):
        prefix = f"# {name}: "
        if number >= len(lines) or not lines[number].startswith(prefix):
            raise PublishedError(f"{path}:{number + 1}: must begin with {prefix!r}")
        head[name] = lines[number].removeprefix(prefix).strip()
    rows = tuple(csv.DictReader(lines[len(_HEAD) :]))
    for number, row in enumerate(rows, start=len(_HEAD) + 2):
        if None in row or None in row.values():
            raise PublishedError(f"{path}:{number}: has another number of fields than the header")
    if not rows:
        raise PublishedError(f"{path}: has no rows")
    return Table(head["source"], head["gpu"], head["what"], rows)
