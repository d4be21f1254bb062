"""The layout of rows that lie side by side in memory, as those along another dimension than the last. Without cutlass."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .config import MAX_CLUSTER, VECTOR_BYTES, WARP, ceil_div, power

SHORT_BYTES, LONG_BYTES = 256, 128  # side by side in a CTA, of rows that it holds whole in the fewest threads, and of others
TURN_BYTES, MOST_TURNS = 256, 48  # of a thread: what its registers hold, and what its code does one by one
THREADS = (128, 256, 512)
NARROW_TURNS = 24  # of vectors of fewer than 16 bytes in the smallest CTAs
# CTAs of a multiprocessor, of the smallest ones: up to which turns of whole vectors of 16 bits, if columns are whole CTAs' or not.
RESIDENT_THREADS, MORE_CTAS = 512, ((6, 8, 6), (5, 16, 8))


@dataclass(frozen=True)
class SideTileConfig:
    """CTAs, or clusters, each of which takes `width` neighbouring rows, whole.

    columns   rows side by side, and so elements from one step of a row to its next
    length    steps of a row
    lanes     threads side by side, each with a vector: a power of two within a warp; the others of a warp have other steps
    cluster   CTAs that share rows; each takes `steps` steps, and the last one the rest
    bytes     of a vector: a power of two
    resident  CTAs that a multiprocessor has room for
    """

    columns: int
    length: int
    itemsize: int
    lanes: int
    cluster: int
    threads: int
    bytes: int = VECTOR_BYTES
    resident: int = 1

    aligned = True

    @property
    def vector(self) -> int:
        return self.bytes // self.itemsize

    @property
    def width(self) -> int:
        return self.lanes * self.vector

    @property
    def strips(self) -> int:
        """CTAs, or clusters, for the rows that lie side by side."""
        return ceil_div(self.columns, self.width)

    @property
    def steps(self) -> int:
        return ceil_div(self.length, self.cluster)

    @property
    def together(self) -> int:
        """Threads of a warp that have the same rows; they are neighbours."""
        return WARP // self.lanes

    @property
    def warps(self) -> int:
        return self.threads // WARP

    @property
    def stride(self) -> int:
        """Steps from one vector of a thread to its next."""
        return self.threads // self.lanes

    @property
    def turns(self) -> int:
        """Vectors of a thread."""
        return ceil_div(self.steps, self.stride)

    def is_inner(self, turn: int) -> bool:
        """Vector number `turn` of every thread of every CTA is in the matrix."""
        last = self.length - (self.cluster - 1) * self.steps
        return self.columns % self.width == 0 and (turn + 1) * self.stride <= last


def choose_side(columns: int, length: int, itemsize: int, architecture: str, place: int = 0, largest: int = 16) -> SideTileConfig:
    """The layout for `columns` rows of `length` steps. Raises ValueError where there is none.

    place    the address of the first element, or its last four bits
    largest  the largest cluster
    Small CTAs, of which a multiprocessor has several, and many vectors per thread were the fastest (docs/htile.md).
    """
    if columns == 1 or architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {columns} rows side by side on {architecture}")
    size = start_bytes(columns * itemsize, itemsize, place)
    most, across = min(MOST_TURNS, TURN_BYTES // size), power(columns * itemsize // size)
    short, long = (min(WARP, side // size, across) for side in (SHORT_BYTES, LONG_BYTES))
    lanes = short if length * short <= most * THREADS[0] else long
    narrow = size < VECTOR_BYTES and NARROW_TURNS * THREADS[0] < length * lanes <= most * THREADS[1]
    for threads in THREADS[narrow:]:
        cluster = power(ceil_div(length * lanes, most * threads))
        if cluster <= largest:
            return _resident(SideTileConfig(columns, length, itemsize, lanes, cluster, threads, size))
    raise ValueError(f"{length} steps of rows side by side are more than a cluster holds in registers")


def _resident(config: SideTileConfig) -> SideTileConfig:
    """With as many CTAs of a multiprocessor as registers suffice for."""
    if config.threads == THREADS[0] and config.itemsize == 2 and config.bytes == VECTOR_BYTES:
        for ctas, even, uneven in MORE_CTAS:
            if config.turns <= (uneven if config.columns % config.width else even):
                return replace(config, resident=ctas)
    return replace(config, resident=RESIDENT_THREADS // config.threads)


def start_bytes(row_bytes: int, itemsize: int, place: int) -> int:
    """The most bytes, up to a vector's, on which rows start that touch one another, the first at `place`.

    Raises ValueError where elements do not start on their own size.
    """
    bits = row_bytes | place | VECTOR_BYTES
    if bits & -bits < itemsize:
        raise ValueError(f"elements of {itemsize} bytes do not start at {place}")
    return bits & -bits
