"""What a command prints: as parts that the terminal, Markdown and a page each write in their own way, and as data for programs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    """What the following parts are about; level 1 is the title of a page."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Lines:
    """Sentences, one per line; commands are lines to copy, markdown lines are Markdown already, verbatim ones a file's."""

    lines: tuple[str, ...]
    commands: bool = False
    markdown: bool = False
    verbatim: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of texts under a header; left names the columns of words, and the first `labels` columns name a row.

    A page shows a folded table folded.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    title: str = ""
    folded: bool = False
    labels: int = 1


Part = Heading | Lines | Table
Document = Sequence[Part]


@dataclass(frozen=True)
class Dataset:
    """Rows for programs: columns with units in their names, figures with all their digits, None where there is none."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[int] = (0,),
    folded: bool = False,
    labels: int = 1,
) -> list[Part]:
    """A table without its empty columns; nothing where it would have no rows."""
    used = [index for index in range(len(header)) if any(row[index] for row in rows)]
    kept = tuple(tuple(row[index] for index in used) for row in rows)
    at = tuple(used.index(index) for index in left if index in used)
    named = sum(index < labels for index in used)
    return [Table(tuple(header[index] for index in used), kept, at, title, folded, named)] if rows else []


def lines(*texts: str) -> list[Part]:
    """The texts that are not empty, as one part; nothing where all are."""
    kept = tuple(text for text in texts if text)
    return [Lines(kept)] if kept else []
