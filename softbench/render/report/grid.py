"""The data of a figure that is a table of tinted cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tile:
    """A cell: its text followed by a sign. heat from 0 to 1 is the depth of its tint; less chooses the tint for less.

    tone is "right", "failed", "declared" or "refused" for a cell without a figure.
    """

    text: str
    sign: str = ""
    heat: float = 0.0
    less: bool = False
    bold: bool = False
    tone: str = ""


@dataclass(frozen=True)
class Column:
    """A head, a small note below it, and the implementation whose sign it shows."""

    title: str
    note: str = ""
    of: str = ""


@dataclass(frozen=True)
class Row:
    """One tile per column, None if nothing was run."""

    title: str
    tiles: tuple[Tile | None, ...]
    note: str = ""


@dataclass(frozen=True)
class Block:
    """Rows with common columns; head is the head of their titles."""

    title: str
    head: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class GridView:
    """One of the pictures that the reader can choose; notes explain signs and tints."""

    label: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A figure; alt describes it in a sentence for readers who cannot see it. One without views is not shown."""

    key: str
    title: str
    alt: str
    views: tuple[GridView, ...]


LINES = 60
"""The most lines of a picture, rows and heads together: as many as a printed page can show."""
HEAD = 4
"""Lines that the heads of a block take."""
ABREAST = 10
"""Columns that usually fit side by side; further columns follow below, with the same rows."""


def paged(blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
    """The blocks as pictures: a long block is split evenly, short ones share a picture."""
    pages: list[list[Block]] = []
    room = 0
    for block in blocks:
        groups = max(1, -(-len(block.columns) // ABREAST))
        parts = -(-len(block.rows) // max(HEAD, LINES // groups - HEAD))
        most = -(-len(block.rows) // max(parts, 1))
        for first in range(0, len(block.rows), max(most, 1)):
            rows = block.rows[first : first + most]
            lines = groups * (len(rows) + HEAD)
            if lines > room:
                pages.append([])
                room = LINES
            pages[-1].append(replace(block, rows=rows))
            room -= lines
    return [tuple(page) for page in pages]


def labels(pages: Sequence[Sequence[Block]]) -> list[str]:
    """A label per picture: the titles of its first and last block, and a number if several have the same title."""
    titles = [" to ".join(dict.fromkeys((page[0].title, page[-1].title))) for page in pages]
    return [
        f"{text} ({titles[: place + 1].count(text)} of {titles.count(text)})" if titles.count(text) > 1 else text
        for place, text in enumerate(titles)
    ]
