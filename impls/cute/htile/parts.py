"""The layout of one to three long rows, each in several clusters of sixteen. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .config import LINE_WORDS, MAX_CLUSTER, RowTileConfig
from .layouts import GROUPS_OF_16, few_threads

LEAST_VECTORS, MOST_VECTORS = 128, 4096  # of a CTA; with more, rows over the whole GPU are as fast


@dataclass(frozen=True)
class PartTileConfig(RowTileConfig):
    """parts: clusters of a row, each with one part of it. One CTA has one row at a time."""

    slots, crews = 1, 1  # as where rows are split over the whole GPU

    parts: int = 2

    @property
    def most_rows(self) -> int:
        return GROUPS_OF_16 // self.parts

    @property
    def workspace_words(self) -> int:
        """Of 64 bits: a line for each row, its tag and a pair of words of each part."""
        return LINE_WORDS * self.most_rows


def parts_of(rows: int) -> int:
    """The clusters of a row, all of which run at once; 1 where rows need no more."""
    return max(1, GROUPS_OF_16 // rows)


def choose_parts(columns: int, itemsize: int, parts: int, architecture: str, aligned: bool = True) -> PartTileConfig | None:
    """The layout, or None where registers do not hold a row, or it is short."""
    cluster = MAX_CLUSTER[architecture]
    whole = RowTileConfig(columns, itemsize, aligned=aligned)
    each = whole.share(parts * cluster)
    threads = few_threads(each, itemsize)
    if parts == 1 or not LEAST_VECTORS <= each <= MOST_VECTORS:
        return None
    found = PartTileConfig(columns, itemsize, aligned=aligned, spread=True, quick=True, parts=parts)
    return replace(found, cluster=cluster, threads=threads, threads_per_row=threads)
