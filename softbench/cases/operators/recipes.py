"""The rows of a drawn input: pieces, each with a level, a slope and a noise. Standard library only.

The distribution word is ``drawn_SEED``. Such an input depends only on its word, the operator and the shape: the same word gives
the same values on every machine, for every seed of the run. A check draws a case twice, so that a kernel cannot return what it
remembers: a word has two inputs, one for even and one for odd seeds of the harness.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

RECIPES = 13
"""Different rows in an input; row i has the recipe of row i mod 13 and its own noise. No tile has 13 rows."""
DEEPEST = 120.0
"""How far below the rest of its row a segment may lie: from 104 on exp(x) is 0 in float32, from 88 on a subnormal."""
WIDEST_NOISE = 8.0
STEEPEST = 8.0
"""The slope of ALiBi's steepest head is 1/2; 8 per column takes a vector of 16 bytes from 1 to e**-56."""


class Form(Enum):
    """What the rows of an operator's input may hold."""

    LOGITS = "anything: also masks of -inf and of the lowest value, and rows that are all mask"
    KEYS = "masks of -inf as well, but never at the first column, so that every causal query sees a key"
    VALUES = "finite values whose squares float32 holds"


class Draw:
    """Random numbers that are the same with every Python, which `random.Random` promises for `random` only."""

    def __init__(self, key: str) -> None:
        self._random = random.Random(key).random

    def below(self, count: int) -> int:
        """A whole number from 0 to count - 1."""
        return min(int(self._random() * count), count - 1)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random()

    def around(self, low: float, high: float) -> float:
        """Between two numbers above 0, uniform on a logarithmic scale."""
        return float(low * (high / low) ** self._random())

    def chance(self, of: int) -> bool:
        """True once in this many times."""
        return self.below(of) == 0

    def one(self, *choices: str) -> str:
        return choices[self.below(len(choices))]


@dataclass(frozen=True)
class Piece:
    """Columns from `start` to the next piece: level + slope (column - origin) + noise u, with u uniform in [-1, 1).

    mask  "-inf" or "min", which they hold in place of that
    """

    start: int
    level: float
    slope: float = 0.0
    origin: int = 0
    noise: float = 0.0
    mask: str = ""


def row(key: str, columns: int, form: Form) -> tuple[Piece, ...]:
    """The pieces of one row of at least one column, from left to right; the first starts at 0."""
    draw = Draw(key)
    drawn = _Row(draw, columns, form)
    if form is Form.LOGITS and draw.chance(24):
        drawn.paint(0, columns, mask=draw.one("-inf", "-inf", "min"))
        return drawn.pieces()
    ingredients: list[Callable[[], None]] = [drawn.segments, drawn.far, drawn.slope, drawn.peaks]
    for _ in range(1 + draw.below(3)):
        ingredients[draw.below(len(ingredients))]()
    if form is not Form.VALUES and draw.chance(3):
        drawn.masks()
    return drawn.pieces()


class _Row:
    """A row under construction. Columns past the end are ignored."""

    def __init__(self, draw: Draw, columns: int, form: Form) -> None:
        self.draw, self.columns, self.form = draw, columns, form
        self.level = draw.around(10, 1e4) * (1 - 2 * draw.below(2)) if draw.chance(4) else 0.0
        self._starts = {0: Piece(0, self.level, noise=self.noise())}

    def pieces(self) -> tuple[Piece, ...]:
        return tuple(self._starts[start] for start in sorted(self._starts))

    def noise(self) -> float:
        """Half the width of a noise; 0 one time in four: then all columns of a piece are equal."""
        return 0.0 if self.draw.chance(4) else self.draw.around(1e-3, WIDEST_NOISE)

    def place(self) -> int:
        """A column: any, or the first, the last, or one next to where a vector, a warp or a block may end."""
        if not self.draw.chance(3):
            return self.draw.below(self.columns)
        step = 1 << self.draw.below(15)
        at = step * self.draw.below(self.columns // step + 1) + self.draw.below(3) - 1
        return min(max(0, at), self.columns - 1)

    def cut(self, at: int) -> None:
        """Start a piece at this column, with the present values."""
        if at < self.columns and at not in self._starts:
            before = max(start for start in self._starts if start < at)
            self._starts[at] = replace(self._starts[before], start=at)

    def paint(self, start: int, stop: int, **changes: float | str) -> None:
        """Change fields of all pieces between two columns."""
        self.cut(start)
        self.cut(stop)
        for at in [at for at in self._starts if start <= at < stop]:
            self._starts[at] = replace(self._starts[at], **changes)  # type: ignore[arg-type]

    def segments(self) -> None:
        """Stretches of random length, each with an offset of its own."""
        starts = sorted({0, *(self.place() for _ in range(1 + self.draw.below(12)))})
        for start, stop in zip(starts, [*starts[1:], self.columns], strict=True):
            level = self.level - self.draw.between(0, DEEPEST)
            self.paint(start, stop, level=level, slope=0.0, noise=self.noise())

    def far(self) -> None:
        """Everything far below one element, or a few."""
        self.paint(0, self.columns, level=self.level - self.draw.between(40, 110), slope=0.0)
        self.peaks()

    def peaks(self) -> None:
        for _ in range(1 + self.draw.below(4)):
            at = self.place()
            above = self.draw.between(0, 40) if self.draw.chance(4) else 0.0
            self.paint(at, at + 1, level=self.level + above, slope=0.0, noise=0.0)

    def slope(self) -> None:
        """ALiBi's: down from one column on both sides, which is the last one in half of the rows."""
        top = self.columns - 1 if self.draw.chance(2) else self.place()
        steep = self.draw.around(2.0**-10, STEEPEST)
        noise = self.noise()
        self.paint(0, top, level=self.level, slope=steep, origin=top, noise=noise)
        self.paint(top, self.columns, level=self.level, slope=-steep, origin=top, noise=noise)

    def masks(self) -> None:
        """After a column, before one, in stretches, or everywhere but in a few places."""
        mask = "min" if self.form is Form.LOGITS and self.draw.chance(4) else "-inf"
        first = 1 if self.form is Form.KEYS else 0
        how = self.draw.one("after", "before", "stretches", "holes")
        if how == "after":
            self.paint(1 + self.place(), self.columns, mask=mask)
        elif how == "before":
            self.paint(first, self.place(), mask=mask)
        elif how == "stretches":
            width = max(1, int(self.draw.around(1, max(1, self.columns // 2))), self.columns // 32)
            for start in range(first + width * self.draw.below(2), self.columns, 2 * width):
                self.paint(start, start + width, mask=mask)
        else:
            seen = sorted({0, *(self.place() for _ in range(self.draw.below(4)))})
            for at, following in zip(seen, [*seen[1:], self.columns], strict=True):
                self.paint(at + 1, following, mask=mask)
