"""The layouts of cross-entropy: rows that are read once, rows that stay for their gradient, gradients alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .config import MAX_CLUSTER, MOST_COLUMNS, SAFE_CLUSTER, VECTOR_BYTES, WARP, RowTileConfig, ceil_div, power
from .layouts import SINGLE_BYTES, fewest_ctas

# Measured on an H200 (docs/notes/performance.md), for rows that are read once. CTAS of a multiprocessor fill it, by bytes of an
# element. Where rows do not fill the GPU, a cluster reads each: the smallest that fills it, or else the largest in which a CTA
# still has the vectors of SHARES. These are more for 16 CTAs, because not every GPU has room for such a cluster.
CTAS = {2: 9, 4: 4}
SHARES = {2: 500, 4: 500, 8: 500, 16: 1000}
# The most vectors of a thread of a short row, and of one that warps read once; the fewest neighbouring threads; the most threads,
# and those of the longest shares.
HELD_VECTORS, WARP_VECTORS, NEIGHBOURS = 6, 15, 8
MOST_THREADS, LONG_BYTES, LONG_THREADS = 256, 128 * 1024, 512
CTA_THREADS = 128
TOGETHER, FEW_TOGETHER = 8, 4  # the second where a thread has hardly more
SHARED_VECTORS, MOST_SHARED_THREADS = 8, 256  # of rows that stay in shared memory
APART_THREADS, APART_VECTORS = 256, 3  # of gradients alone


@dataclass(frozen=True)
class StreamTileConfig(RowTileConfig):
    """A thread asks for `together` of its vectors at a time, a batch, and keeps none."""

    together: int = TOGETHER

    @property
    def batch_vectors(self) -> int:
        """Of all threads of a row in a CTA."""
        return self.together * self.threads_per_row

    @property
    def batches(self) -> int:
        return ceil_div(self.cta_vectors, self.batch_vectors)

    @property
    def whole_batches(self) -> int:
        """In those before this one every thread of every CTA has all its vectors, and they end in the row."""
        whole = self.columns // self.vector - (self.cluster - 1) * self.cta_vectors
        return min(self.cta_vectors, whole) // self.batch_vectors

    def turns(self, batch: int) -> int:
        """Vectors of a thread in a batch: fewer in the last one."""
        return min(self.together, ceil_div(self.cta_vectors - batch * self.batch_vectors, self.threads_per_row))

    def is_free(self, batch: int) -> bool:
        """Whether all vectors of a batch lie wholly in the row."""
        return batch < self.whole_batches and (batch > 0 or not self.lead)


def streamed_layouts(
    rows: int, columns: int, itemsize: int, processors: int, aligned: bool, architecture: str = "sm_90"
) -> Iterator[StreamTileConfig]:
    """Of rows that are read once, in the order in which they are tried: a GPU may refuse the largest cluster."""
    if columns > MOST_COLUMNS or architecture not in MAX_CLUSTER:
        return
    whole, cluster = StreamTileConfig(columns, itemsize, aligned=aligned), 1
    for wider, least in SHARES.items():
        if rows * cluster < CTAS[itemsize] * processors and whole.share(wider) >= least:
            cluster = wider
    yield _streamed(whole, cluster)
    if cluster > SAFE_CLUSTER:
        yield _streamed(whole, SAFE_CLUSTER)


def choose_held(columns: int, itemsize: int, aligned: bool, architecture: str = "sm_90") -> RowTileConfig | None:
    """Of rows that stay where they are; None for longer ones than a cluster has with that many threads."""
    whole = RowTileConfig(columns, itemsize, aligned=aligned)
    if architecture not in MAX_CLUSTER:
        return None
    if columns * itemsize <= SINGLE_BYTES:
        return _held(whole)
    return fewest_ctas(replace(whole, keep="shared"), SHARED_VECTORS, MOST_SHARED_THREADS, MAX_CLUSTER[architecture])


def choose_apart(columns: int, itemsize: int, aligned: bool = True) -> RowTileConfig:
    """Of rows of any length that nothing is summed over: CTAs of APART_THREADS, APART_VECTORS per thread."""
    whole, each = RowTileConfig(columns, itemsize, aligned=aligned, apart=True), APART_THREADS * APART_VECTORS
    if whole.vectors <= each:
        return _held(replace(whole, apart=False))
    return replace(whole, cluster=ceil_div(whole.vectors, each), threads=APART_THREADS, threads_per_row=APART_THREADS)


def _held(whole: RowTileConfig) -> RowTileConfig:
    """Several rows per CTA, of one warp or a part of it each, or one."""
    each = _neighbours(whole.vectors)
    return replace(whole, threads=CTA_THREADS if each <= WARP else each, threads_per_row=each)


def _neighbours(vectors: int) -> int:
    """Threads of a short row: a power of two, as three warps take 4 % longer than two."""
    return max(power(ceil_div(vectors, HELD_VECTORS)), min(NEIGHBOURS, power(ceil_div(vectors, 2))))


def _streamed(whole: StreamTileConfig, cluster: int) -> StreamTileConfig:
    vectors = whole.share(cluster)
    each = _neighbours(vectors)
    if each > WARP:
        most = MOST_THREADS if vectors * VECTOR_BYTES <= LONG_BYTES else LONG_THREADS
        each = min(max(WARP if cluster == 1 else CTA_THREADS, power(ceil_div(vectors, WARP_VECTORS))), most)
    together = TOGETHER if vectors > (FEW_TOGETHER + 1) * each else FEW_TOGETHER
    return replace(whole, cluster=cluster, threads=max(each, CTA_THREADS), threads_per_row=each, together=together)
