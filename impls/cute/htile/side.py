"""The layout of rows that lie side by side in memory, as those along another dimension than the last. Without cutlass."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .config import MAX_CLUSTER, VECTOR_BYTES, WARP, ceil_div, power

# Side by side in a CTA: WIDE_BYTES with the fewest threads and in clusters of up to WIDE_CLUSTER, if that does not leave more
# places without a column than WASTE of all columns, nor any where BYTES leave none; else BYTES.
WIDE_BYTES, BYTES, WIDE_CLUSTER, WASTE = 256, 128, 8, 1 / 8
THREADS = (128, 256, 512)
# The most vectors of a thread, by their bytes, and half as many narrow ones with the fewest threads; MOST_TURNS, or MOST_BYTES, if
# rows are too long otherwise.
TURNS, MOST_BYTES, MOST_TURNS = {16: 16, 8: 12, 4: 24, 2: 27}, 256, 48
# For how many threads of a multiprocessor registers suffice, by the most vectors of each: narrow ones, those of 32 bits, and of 16
# with columns for whole CTAs or not. With more vectors LEAST_THREADS.
LEAST_THREADS = 512
RESIDENT = {
    "narrow": ((1280, 9), (1024, 27)),
    "float32": ((768, 11),),
    "even": ((1280, 3), (1152, 4), (768, 12), (640, 16)),
    "uneven": ((1280, 3), (1152, 4), (768, 6), (640, 9)),
}


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
    def missing(self) -> int:
        """Columns of the last CTA, or cluster, that the matrix does not have."""
        return -self.columns % self.width

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
        return not self.missing and (turn + 1) * self.stride <= last


def choose_side(columns: int, length: int, itemsize: int, architecture: str, place: int = 0, largest: int = 16) -> SideTileConfig:
    """The layout for `columns` rows of `length` steps. Raises ValueError where there is none.

    place    the address of the first element, or its last four bits
    largest  the largest cluster
    Small CTAs, of which a multiprocessor has several, and many vectors per thread were the fastest (docs/htile.md).
    """
    if columns == 1 or architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {columns} rows side by side on {architecture}")
    size = start_bytes(columns * itemsize, itemsize, place)
    first = SideTileConfig(columns, length, itemsize, 1, 1, THREADS[0], size)
    wide, narrow = (replace(first, lanes=min(WARP, side // size, power(first.strips))) for side in (WIDE_BYTES, BYTES))
    others, turns, tried = [replace(narrow, threads=threads) for threads in THREADS], TURNS[size], []
    if size < VECTOR_BYTES:
        tried = [(wide, turns // 2, 1)]
        others = others[1:]
    elif wide.missing - narrow.missing <= WASTE * columns and (narrow.missing or not wide.missing):
        tried = [(wide, turns, min(largest, WIDE_CLUSTER))]
    tried += [(config, turns, largest) for config in others]
    for config, turns, most in [*tried, (others[-1], min(MOST_TURNS, MOST_BYTES // size), largest)]:
        cluster = power(ceil_div(config.turns, turns))
        if cluster <= most:
            return _resident(replace(config, cluster=cluster))
    raise ValueError(f"{length} steps of rows side by side are more than a cluster holds in registers")


def _resident(config: SideTileConfig) -> SideTileConfig:
    """With as many CTAs of a multiprocessor as registers suffice for."""
    whole = "float32" if config.itemsize == 4 else "uneven" if config.missing else "even"
    known = RESIDENT[whole if config.bytes == VECTOR_BYTES else "narrow"]
    threads = next((threads for threads, turns in known if config.turns <= turns), LEAST_THREADS)
    return replace(config, resident=threads // config.threads)


def start_bytes(row_bytes: int, itemsize: int, place: int) -> int:
    """The most bytes, up to a vector's, on which rows start that touch one another, the first at `place`.

    Raises ValueError where elements do not start on their own size.
    """
    bits = row_bytes | place | VECTOR_BYTES
    if bits & -bits < itemsize:
        raise ValueError(f"elements of {itemsize} bytes do not start at {place}")
    return bits & -bits
