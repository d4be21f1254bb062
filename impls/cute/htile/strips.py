"""The layout of kernels that sum over rows: a thread keeps its strip of columns from row to row. Without cutlass.

A vector is the most elements that start on their own size in every row of every matrix, so no row has ends of its own:
16 bytes of the widest dtype where rows are whole vectors, 2 bytes where a float16 row is odd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .config import MAX_CLUSTER, SHARED_BYTES, VECTOR_BYTES, WARP, Shared, ceil_div, power, share

# Of a row that a thread has, and so of sums over rows: a CTA takes more threads before more elements, and these before a cluster,
# whose exchange takes longer. MOST_ELEMENTS are beyond the largest cluster; staged rows start with LEAST_BYTES of the widest.
LEAST_BYTES, ELEMENTS, MOST_ELEMENTS = 32, 16, 32
MIN_THREADS, ROW_THREADS = 256, 512
# Of a multiprocessor, with 128 registers each: more threads, as CTAs, leave more sums to add up. Without sums, 64 registers do.
RESIDENT_THREADS = 512
COPY_BYTES = 4  # the least of an asynchronous copy
RESERVED_BYTES = 16 * 1024  # of shared memory, for exchanges and what the hardware keeps
# On their way to a multiprocessor: as much as memory brings while a request waits. Short rows were slower with three times as much.
FLIGHT_BYTES = 32 * 1024
MOST_STAGES = 6


@dataclass(frozen=True)
class StripConfig(Shared):
    """CTAs, or clusters, each of which takes `rows` rows at a time until all are done.

    columns, vector  elements of a row, and of a vector, of which a row has a whole number
    cluster, threads, threads_per_row  as in RowTileConfig
    stages           rows of a thread that are on their way or in use, in shared memory; 1: one, in registers
    resident         CTAs of a multiprocessor at a time
    """

    columns: int
    vector: int
    cluster: int = 1
    threads: int = MIN_THREADS
    threads_per_row: int = WARP
    stages: int = 1
    resident: int = 1

    @property
    def vectors(self) -> int:
        return self.columns // self.vector

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA of the cluster but the last."""
        return share(self.vectors, self.cluster, self.vectors)

    @property
    def turns(self) -> int:
        """Vectors of a thread, the last of which some threads may not have."""
        return ceil_div(self.cta_vectors, self.threads_per_row)

    def is_inner(self, turn: int) -> bool:
        """Every thread of every CTA has vector number `turn`."""
        last = self.vectors - (self.cluster - 1) * self.cta_vectors
        return (turn + 1) * self.threads_per_row <= min(self.cta_vectors, last)

    @property
    def rows(self) -> int:
        return self.threads // self.threads_per_row

    @property
    def peers(self) -> int:
        """Warps of the whole cluster that share a row."""
        return self.warps_per_row * self.cluster

    @property
    def overlaps(self) -> bool:
        """A row is finished while the sums over the next one are exchanged."""
        return self.stages > 2

    @property
    def ahead(self) -> int:
        """Rows that are requested before one of them is used."""
        return self.stages - (2 if self.overlaps else 1)

    def ring_bytes(self, element_bytes: int) -> int:
        """Shared memory for the rows of all matrices, whose elements together take `element_bytes`."""
        return self.stages * self.turns * self.threads * self.vector * element_bytes if self.stages > 1 else 0

    def groups(self, rows: int, heads: int, most: int) -> int:
        """CTAs, or clusters: as many for each head of `rows` rows, and `most` at most, those that the GPU holds at a time."""
        return heads * max(1, min(most // heads, ceil_div(rows // heads, self.rows)))

    def at_once(self, processors: int) -> int:
        """CTAs, or clusters, that a GPU holds at a time: one that waits for another to end would double the time.

        A cluster stays in one group of multiprocessors, and these are not alike: an H200 has room for 15 clusters of 8, 7 of 16.
        """
        most = processors * self.resident // self.cluster
        return most if self.cluster <= 2 else most * 7 // 8


def vector_of(itemsizes: tuple[int, ...], places: int) -> int:
    """Elements of a vector of matrices of these element sizes, none of which is wider than 16 bytes.

    places  elements between any two starts of rows, joined by "or"
    """
    most = VECTOR_BYTES // max(itemsizes)
    return min(most, (places & -places) or most)


def choose_strip(columns: int, vector: int, itemsizes: tuple[int, ...], architecture: str, sums: int, largest: int) -> StripConfig:
    """The layout for rows of `columns` elements, of matrices that are read in these element sizes.

    sums     values per column that a thread sums over rows; without any, each row has a CTA or cluster of its own
    largest  the largest cluster
    Raises ValueError where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}")
    vectors, config = columns // vector, StripConfig(columns, vector)
    can_stage = sums > 0 and vector * min(itemsizes) >= COPY_BYTES
    clusters = [1 << n for n in range(largest.bit_length())]
    sizes = [*((cluster, ELEMENTS, ROW_THREADS) for cluster in clusters), (largest, MOST_ELEMENTS, ROW_THREADS)]
    if can_stage:
        sizes.insert(0, (1, LEAST_BYTES // max(itemsizes), ROW_THREADS))
    elif sums:  # a row in registers overlaps nothing, so a multiprocessor has two CTAs
        sizes[:0] = [(cluster, ELEMENTS, ROW_THREADS // 2) for cluster in clusters[:2]]
    for cluster, elements, most in sizes:
        each = elements // vector
        if share(vectors, cluster, vectors) <= each * most:
            config = _filled(replace(config, cluster=cluster), each)
            break
    else:
        raise ValueError(f"a row of {columns} elements is more than a cluster holds in registers")
    threads = RESIDENT_THREADS if sums or elements > ELEMENTS else 2 * RESIDENT_THREADS
    config = replace(config, resident=max(1, threads // config.threads))
    if not can_stage:
        return config
    room = (SHARED_BYTES[architecture] - RESERVED_BYTES) // config.resident
    row = replace(config, stages=2).ring_bytes(sum(itemsizes)) // 2
    wanted = min(MOST_STAGES, 2 + ceil_div(FLIGHT_BYTES, row * config.resident))
    return replace(config, stages=max(1, min(wanted, room // row)))


def _filled(config: StripConfig, each: int) -> StripConfig:
    """With threads that have `each` vectors at most: a power of two within a warp, whole warps beyond."""
    wanted = ceil_div(config.cta_vectors, each)
    threads = power(wanted) if wanted <= WARP else ceil_div(wanted, WARP) * WARP
    return replace(config, threads=max(threads, MIN_THREADS // threads * threads), threads_per_row=threads)
