"""What a figure is made of that is a table of tinted cells: heat maps, ladders, hard cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tile:
    """A cell: its text and a sign behind it; heat from 0 to 1 is the depth of its tint, the tint of less where `less`.

    tone is "right", "failed", "declared" or "refused" of a cell without a figure; a share from 0 to 1 is that of a bar.
    """

    text: str
    sign: str = ""
    heat: float = 0.0
    less: bool = False
    bold: bool = False
    tone: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Column:
    """A head, a small note below it, and the implementation whose sign it bears. Words are wrapped on the left."""

    title: str
    note: str = ""
    of: str = ""
    words: bool = False


@dataclass(frozen=True)
class Row:
    """A tile a column, None where nothing was run; of is the implementation whose sign the row bears."""

    title: str
    tiles: tuple[Tile | None, ...]
    note: str = ""
    of: str = ""


@dataclass(frozen=True)
class Block:
    """Rows under common heads; head is that of what names them."""

    title: str
    head: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class GridView:
    """One of the pictures among which the reader chooses; notes say what signs and tints stand for."""

    label: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A figure; alt says in a sentence what it shows, to who cannot see it."""

    key: str
    title: str
    alt: str
    views: tuple[GridView, ...]


LINES = 60
"""Of a picture at the most, rows and heads together: as many as can be read on a printed page."""
HEAD = 4
"""Lines that the heads of a block take."""
ABREAST = 10
"""Columns that mostly fit side by side; further ones stand below, beside the same rows."""


def paged(blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
    """The blocks as pictures; a long one is divided into even parts, and short ones share a picture."""
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
    """What each picture holds: the titles of its first and last block, and which part where several have one title."""
    found = [" to ".join(dict.fromkeys((page[0].title, page[-1].title))) for page in pages]
    return [
        f"{text} ({found[: place + 1].count(text)} of {found.count(text)})" if found.count(text) > 1 else text
        for place, text in enumerate(found)
    ]
