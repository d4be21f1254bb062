"""Short dense rows, many in a CTA: their layout, chosen by what a CTA has to do. Without cutlass.

docs/htile.md says how such rows are moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from .config import SECTOR_BYTES, SHARED_BYTES, VECTOR_BYTES, WARP, Shared, ceil_div

BANKS, BANK_BYTES = 32, 4
STRETCH_ALIGN = 128
# By bytes of an element; longer rows are as fast in kernels that take one at a time.
MOST_ROW_BYTES = {
    2: {"softmax": 5 * 512, "norm": 5 * 512, "layer": 6 * 512},
    4: {"softmax": 5 * 512, "norm": 15 * 256, "layer": 15 * 256},
}
WHOLE_UNITS, ODD_UNITS = (2, 64), (5, 7)  # of rows that are whole vectors: LayerNorm's; softmax's and RMSNorm's of 16 bits, if odd
MOST_BYTES = 56 * 1024  # of a CTA's matrices: with more, too few CTAs on a multiprocessor hide one another's waiting
LEAST_BYTES = 7 * 512  # of a CTA's first matrix
MOST_THREADS = 256
MOST_ELEMENTS = 48, 32  # of a row that a thread holds in registers, and of rows of several matrices
MOST_HELD = 9 * 1024  # that the threads of a norm's CTA hold: of more registers there is no room for three CTAs
# Instructions of a thread, for a matrix of a softmax: counted in the compiled kernels, rounded.
ELEMENT, UNIT, STEP, ROW = 8, 4, 2, 6
HELD, EACH_HELD = 12, 0.015  # registers of more elements keep other CTAs off the multiprocessor: what each of them adds
BARRIERS = 40  # of the exchanges of several warps
BANK_TURN = 2  # for a turn of the banks: half of what a multiprocessor issues meanwhile, as both go on at a time
BUDGET = 128  # instructions of a lane that a multiprocessor issues while an H200's memory moves 16 bytes for it
# What costs as much, or TIE_SHARE times the least, is as fast, but for these shares of the time, found at 220 drawn cases on an
# H200: by what CTAs have under way if a thread has fewer bytes than EACH_BYTES (in LayerNorm of 16 bits, of one matrix of 16
# bits, else; twice as many in LayerNorm of 16 bits with more than MANY_HELD elements in registers, which leaves room for fewer
# CTAs), where CTAs share a sector, for each KiB of a CTA, whose end is then idle longer, and for several warps of a row or of
# LayerNorm's weights.
TIE, TIE_SHARE, BEYOND = 112, 1.12, 0.75
EACH_BYTES, MANY_HELD, FEW_UNDER_WAY, SHARED_SECTOR, EACH_KIB, WARPS = (56, 30, 22), 32, 0.2, 0.05, 0.002, 0.03


@dataclass(frozen=True)
class PackedTileConfig(Shared):
    """The layout of a kernel that gives a CTA several dense rows.

    columns, itemsize  elements of a row, bytes of an element; the same in all matrices, but a mask may have bytes
    threads            threads of a CTA
    threads_per_row    threads of a row: a power of two within a warp, whole warps beyond
    passes             rows of a thread, one after another
    apart              rows between those of neighbouring groups of threads
    """

    columns: int
    itemsize: int
    threads: int
    threads_per_row: int
    passes: int = 1
    apart: int = 1

    aligned = True
    cluster = 1

    @property
    def vector(self) -> int:
        """Elements of a 16-byte vector."""
        return VECTOR_BYTES // self.itemsize

    @property
    def unit(self) -> int:
        """Elements that a thread takes from shared memory at a time."""
        return math.gcd(self.columns, self.vector)

    @property
    def units(self) -> int:
        return self.columns // self.unit

    @property
    def turns(self) -> int:
        """Units of a thread, the last of which some threads may not have."""
        return ceil_div(self.units, self.threads_per_row)

    @property
    def held(self) -> int:
        """Elements of a row that a thread holds in registers."""
        return self.turns * self.unit

    def is_inner(self, turn: int) -> bool:
        """Every thread of a row has unit number `turn`."""
        return (turn + 1) * self.threads_per_row <= self.units

    @property
    def groups(self) -> int:
        """Rows at a time."""
        return self.threads // self.threads_per_row

    @property
    def rows(self) -> int:
        return self.groups * self.passes

    def row(self, number):
        """The row in the CTA that group `number` takes; those of later passes follow on those of the first."""
        ways = self.rows // self.apart
        return number if self.apart == 1 else number % ways * self.apart + number // ways

    @property
    def stretch(self) -> int:
        """Elements of a CTA's rows."""
        return self.rows * self.columns

    @property
    def peers(self) -> int:
        return self.warps_per_row

    def shared_bytes(self, tiles: float = 1) -> float:
        """The most shared memory of a CTA with `tiles` matrices, the buffer of two reductions and an mbarrier."""
        buffer = 2 * 4 * self.rows * self.peers if self.peers > 1 else 0
        return tiles * (self.stretch * self.itemsize + STRETCH_ALIGN) + buffer + VECTOR_BYTES


def least_rows(columns: int, itemsize: int) -> int:
    """The fewest dense rows that are whole vectors together."""
    return VECTOR_BYTES // math.gcd(VECTOR_BYTES, columns * itemsize)


@lru_cache(maxsize=4096)
def choose_packed(
    columns: int, itemsize: int, architecture: str = "sm_90", tiles: float = 1, terms: int = 0
) -> PackedTileConfig | None:
    """The layout that costs least, or None where another kernel is as fast; arguments as in `choose`.

    tiles  bytes of the matrices that are read, as multiples of the first one's
    """
    least = least_rows(columns, itemsize)
    most = MOST_ROW_BYTES[itemsize][("softmax", "norm", "layer")[terms] if tiles == 1 or itemsize == 2 else "softmax"]
    fewest, units = WHOLE_UNITS  # more than the first, up to the second
    is_layer, whole = terms > 1 and tiles == 1, columns * itemsize // VECTOR_BYTES
    is_odd = itemsize == 2 and terms + tiles <= 2 and whole % 2 == 1 < whole <= ODD_UNITS[terms]
    is_served = least > 1 or (fewest < whole <= units if is_layer else is_odd)
    if architecture not in SHARED_BYTES or not is_served or columns * itemsize > most:
        return None
    found = {}
    for threads in (128, MOST_THREADS):
        for each in (1, 2, 4, 8, 16, WARP, 64, 128)[: 6 if terms > 1 and itemsize == 2 else None]:
            config = PackedTileConfig(columns, itemsize, threads, each)
            if not terms or config.held * threads <= MOST_HELD:
                found.update((config, cost(config, tiles, terms)) for config in _filled(config, least, tiles))
    tie = max(TIE, TIE_SHARE * min(found.values(), default=0))
    return min(found, key=lambda c: (_loss(c, found[c] / tie, tiles, terms), found[c], -c.threads), default=None)


def _filled(config: PackedTileConfig, least: int, tiles: float) -> list[PackedTileConfig]:
    """With as many passes as make whole vectors, of enough bytes; none where a CTA or a thread has too much.

    Also with the rows of a warp apart: neighbouring rows of half a turn of the banks would all begin in the same banks.
    """
    if config.held > MOST_ELEMENTS[tiles > 1] or (config.peers > 1 and config.units < 4 * config.threads_per_row):
        return []
    whole, row_bytes = least // math.gcd(least, config.groups), config.groups * config.columns * config.itemsize
    first, end = ceil_div(LEAST_BYTES, row_bytes * whole) * whole, int(MOST_BYTES / tiles / row_bytes)
    near = [replace(config, passes=passes) for passes in range(first, end + 1, whole)]
    return near if config.group == WARP else near + [replace(c, apart=c.rows * c.group // WARP) for c in near]


def _loss(config: PackedTileConfig, cost: float, tiles: float, terms: int) -> float:
    """Of the time, against the fastest layout of the rows; cost: against what is as fast as the least."""
    bytes_, is_bound = config.stretch * config.itemsize, terms > 1 and config.itemsize == 2
    enough = EACH_BYTES[0 if is_bound else 1 if config.itemsize == 2 and tiles == 1 else 2]
    enough *= 2 if is_bound and config.held > MANY_HELD else 1
    lost = BEYOND * math.log(max(cost, 1)) + EACH_KIB * bytes_ / 1024
    lost += FEW_UNDER_WAY * max(0.0, math.log(enough * config.threads / bytes_))
    lost += SHARED_SECTOR if bytes_ % SECTOR_BYTES else 0
    return lost + WARPS * ((config.peers > 1) + (is_bound and config.threads > MOST_THREADS // 2))


def cost(config: PackedTileConfig, tiles: float = 1, terms: int = 0) -> float:
    """Instructions of lanes per 16 bytes of one matrix. The memory takes longer up to BUDGET for each matrix read or written.

    A turn costs what its elements do, the unit's way from shared memory and back, and the turns of the banks; a row, the
    steps of its two reductions and what is done once.
    """
    banks = BANK_TURN * bank_turns(config)
    unit = ELEMENT * config.unit + UNIT + 2 * banks + 2 * terms
    row = ROW + 4 * STEP * int(math.log2(config.group)) + (BARRIERS if config.peers > 1 else 0)
    held = 1 + EACH_HELD * max(0, config.held - HELD)
    each = held * (config.turns * unit + row)
    return each * config.threads_per_row / (config.columns * config.itemsize) * VECTOR_BYTES


def bank_turns(config: PackedTileConfig) -> int:
    """How often the banks are asked for one unit of every lane of a warp."""
    wanted: dict[int, set[int]] = {}
    for lane in range(WARP):
        row, thread = divmod(lane, config.group)
        first = (row * config.apart * config.columns + thread * config.unit) * config.itemsize
        for word in range(first // BANK_BYTES, (first + config.unit * config.itemsize - 1) // BANK_BYTES + 1):
            wanted.setdefault(word % BANKS, set()).add(word)
    return max(map(len, wanted.values()))
