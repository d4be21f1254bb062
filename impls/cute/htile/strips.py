"""The layout of kernels that sum over rows: a thread keeps its strip of columns from row to row. Without cutlass.

A vector is the most elements that start on their own size in every row of every matrix, so no row has ends of its own:
16 bytes of the widest dtype where rows are whole vectors, 2 bytes where a float16 row is odd.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from .config import MAX_CLUSTER, SHARED_BYTES, VECTOR_BYTES, WARP, Shared, ceil_div, share

ELEMENTS = 16  # of a row that a thread has: as many sums over rows, twice that for two, in registers
MOST_ELEMENTS = 32  # beyond the largest cluster
MIN_THREADS, ROW_THREADS = 128, 512
REGISTERS = 64 * 1024  # of a multiprocessor
# Of a thread, as the compiler takes them: ELEMENTS sums of a row that comes through shared memory; the same beside other rows,
# or without sums; two sums of each element, or the row itself in registers.
ONE_SUM, OTHER_ROWS, TWO_SUMS = 64, 80, 128
COPY_BYTES = 4  # the least of an asynchronous copy
RESERVED_BYTES = 16 * 1024  # of shared memory, for exchanges and what the hardware keeps
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
        return share(self.vectors, self.cluster)

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

    def ring_bytes(self, element_bytes: int) -> int:
        """Shared memory for the rows of all matrices, whose elements together take `element_bytes`."""
        return self.stages * self.turns * self.threads * self.vector * element_bytes if self.stages > 1 else 0

    def groups(self, rows: int, heads: int, processors: int) -> int:
        """CTAs, or clusters: as many for each head of `rows` rows, and as many as the GPU holds at a time."""
        resident = processors * self.resident // self.cluster
        return heads * max(1, min(resident // heads, ceil_div(rows // heads, self.rows)))


def vector_of(itemsizes: tuple[int, ...], places: int) -> int:
    """Elements of a vector of matrices of these element sizes, none of which is wider than 16 bytes.

    places  elements between any two starts of rows, joined by "or"
    """
    most = VECTOR_BYTES // max(itemsizes)
    return min(most, (places & -places) or most)


def choose_strip(
    columns: int, vector: int, itemsizes: tuple[int, ...], architecture: str, sums: int, largest: int
) -> StripConfig:
    """The layout for rows of `columns` elements, of matrices that are read in these element sizes.

    sums     values per column that a thread sums over rows; without any, each row has a CTA or cluster of its own
    largest  the largest cluster
    Raises ValueError where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}")
    vectors, config = columns // vector, StripConfig(columns, vector)
    for cluster, elements in _sizes(largest):
        each = elements // vector
        if share(vectors, cluster) <= each * ROW_THREADS:
            config = _filled(replace(config, cluster=cluster), each)
            break
    else:
        raise ValueError(f"a row of {columns} elements is more than a cluster holds in registers")
    can_stage = sums > 0 and vector * min(itemsizes) >= COPY_BYTES
    registers = ONE_SUM if config.rows == 1 and can_stage else OTHER_ROWS
    if sums > 1 or elements > ELEMENTS or (sums and not can_stage):
        registers = TWO_SUMS
    config = replace(config, resident=max(1, REGISTERS // (registers * config.threads)))
    if not can_stage:
        return config
    room = SHARED_BYTES[architecture] - RESERVED_BYTES
    for resident, stages in itertools.product(range(config.resident, 0, -1), range(MOST_STAGES, 1, -1)):
        staged = replace(config, stages=stages, resident=resident)
        if staged.ring_bytes(sum(itemsizes)) * resident <= room:
            return staged
    return config


def _sizes(largest: int) -> list[tuple[int, int]]:
    """(CTAs, elements per thread) in the order in which they are tried."""
    clusters = [1 << n for n in range(largest.bit_length())]
    return [*((cluster, ELEMENTS) for cluster in clusters), (largest, MOST_ELEMENTS)]


def _filled(config: StripConfig, each: int) -> StripConfig:
    """With threads that have `each` vectors at most: a power of two within a warp, whole warps beyond."""
    wanted = ceil_div(config.cta_vectors, each)
    threads = 1 << (wanted - 1).bit_length() if wanted <= WARP else ceil_div(wanted, WARP) * WARP
    return replace(config, threads=max(threads, MIN_THREADS // threads * threads), threads_per_row=threads)
