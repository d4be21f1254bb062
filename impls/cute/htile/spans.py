"""The layout of rows of which only a span of columns is seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .config import LINE_VECTORS, VECTOR_BYTES, RowTileConfig, ceil_div, share


@dataclass(frozen=True)
class SpanTileConfig(RowTileConfig):
    """A thread's turns begin where its row's span does, at a multiple of `line` vectors.

    window  the most columns that a row sees
    """

    from_ends = True  # as the rows of a triangle differ in length
    boundary = VECTOR_BYTES

    window: int = 1
    line: int = LINE_VECTORS

    @property
    def is_windowed(self) -> bool:
        return self.window < self.columns

    @property
    def is_even(self) -> bool:
        """Never: what a row sees ends anywhere."""
        return False

    @property
    def held(self) -> int:
        """The most vectors from the first one of a span to its end."""
        touched = ceil_div(self.window - 1, self.vector) + self.line
        return min(self.vectors, touched) if self.is_windowed else self.vectors

    @property
    def cta_vectors(self) -> int:
        return share(self.held, self.cluster, self.held)

    @property
    def outer_turns(self) -> tuple[int, ...]:
        return tuple(range(self.vectors_per_thread))

    def is_inner(self, turn: int, beyond: int = 0) -> bool:
        return False

    def sides(self, turn: int, beyond: int = 0) -> tuple[bool, bool]:
        return True, True
