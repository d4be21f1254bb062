"""Layouts of short rows that are counted from a cache line, as those of more than 12 KiB are."""

from impls.cute.htile.config import RowTileConfig
from impls.cute.htile.crews import SplitTileConfig
from impls.cute.htile.parts import PartTileConfig


class OfLines(RowTileConfig):
    boundary = 128


class RingOfLines(SplitTileConfig):
    boundary = 128


class PartsOfLines(PartTileConfig):
    boundary = 128
