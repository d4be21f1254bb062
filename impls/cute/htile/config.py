"""How a row-wise kernel is laid out on the machine: a pure function of columns, element size and architecture.

Nothing here imports cutlass: the tables are tested on a machine without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

VECTOR_BYTES = 16
WARP = 32
MAX_THREADS = 1024
MAX_CLUSTER = {"sm_90": 16, "sm_100": 16, "sm_103": 16}
SHARED_BYTES = {"sm_90": 227 * 1024, "sm_100": 227 * 1024, "sm_103": 227 * 1024}

# One CTA's share of a row. At 32 KiB and 256 threads seven CTAs share an SM, so that some load while others reduce
# and store; a larger share leaves too few of them to keep the memory busy all the time.
PREFERRED_SHARE_BYTES = 32 * 1024
# Threads are added to a row until each has this many vectors (of 16 bytes), but past WIDE_THREADS only until twice
# as many: more warps a row make the exchange dearer and do not bring more bytes into flight.
VECTORS_PER_THREAD = 4
WIDE_THREADS = 256
MIN_THREADS = 128


@dataclass(frozen=True)
class ElementwiseTileConfig:
    """The layout of one row-wise kernel.

    columns          elements in a row
    itemsize         bytes of an element of the input
    cluster          CTAs that share a row; each takes `cta_vectors` vectors, the last one what is left
    threads          threads in a CTA
    threads_per_row  threads that share a row within a CTA

    The last three are powers of two. Raises ValueError for others.
    """

    columns: int
    itemsize: int
    cluster: int
    threads: int
    threads_per_row: int

    def __post_init__(self) -> None:
        for name in ("cluster", "threads", "threads_per_row"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value}")

    @property
    def vector(self) -> int:
        """Elements in a 16-byte vector."""
        return VECTOR_BYTES // self.itemsize

    @property
    def vectors(self) -> int:
        return self.columns // self.vector

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA of the cluster but the last."""
        return _ceil_div(self.vectors, self.cluster)

    @property
    def cta_columns(self) -> int:
        return self.cta_vectors * self.vector

    @property
    def vectors_per_thread(self) -> int:
        return _ceil_div(self.cta_vectors, self.threads_per_row)

    @property
    def tile_columns(self) -> int:
        """Columns of the shared-memory tile: `cta_columns` rounded up to whole turns of the threads of a row."""
        return self.vectors_per_thread * self.threads_per_row * self.vector

    @property
    def rows(self) -> int:
        """Rows of a CTA."""
        return self.threads // self.threads_per_row

    @property
    def warps_per_row(self) -> int:
        return max(1, self.threads_per_row // WARP)

    @property
    def group(self) -> int:
        """Threads of one warp that share a row."""
        return min(WARP, self.threads_per_row)

    @property
    def peers(self) -> int:
        """Warps over the whole cluster that share a row."""
        return self.warps_per_row * self.cluster

    @property
    def is_even(self) -> bool:
        """Whether every thread of every CTA has `vectors_per_thread` vectors, so that no bounds are checked."""
        return self.tile_columns * self.cluster == self.columns

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA: the tile, a (max, sum) pair of two float32 a peer and row, and one mbarrier."""
        pairs = self.rows * self.peers * 8 if self.peers > 1 else 0
        return self.rows * self.tile_columns * self.itemsize + pairs + (8 if self.cluster > 1 else 0)


def choose(
    columns: int, itemsize: int, architecture: str = "sm_90", share_bytes: int = PREFERRED_SHARE_BYTES
) -> ElementwiseTileConfig:
    """The layout for rows of `columns` elements of `itemsize` bytes.

    The cluster is the smallest power of two that brings a CTA's share of a row to at most `share_bytes`, or the
    largest that the architecture has; the share may then be as large as shared memory.

    Raises ValueError, with a reason in one line, where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}; there is one for {', '.join(MAX_CLUSTER)}")
    if columns <= 0 or columns * itemsize % VECTOR_BYTES:
        raise ValueError(f"{columns} columns of {itemsize} bytes are not a positive number of whole 16-byte vectors")
    vectors = columns * itemsize // VECTOR_BYTES
    cluster = 1
    while cluster < MAX_CLUSTER[architecture] and _ceil_div(vectors, cluster) * VECTOR_BYTES > share_bytes:
        cluster *= 2
    threads_per_row = _threads_per_row(_ceil_div(vectors, cluster))
    if cluster > 1:
        threads_per_row = max(threads_per_row, WARP)
    threads = threads_per_row if cluster > 1 else max(MIN_THREADS, threads_per_row)
    config = ElementwiseTileConfig(columns, itemsize, cluster, threads, threads_per_row)
    if (cluster - 1) * config.cta_vectors >= vectors:
        raise ValueError(f"{vectors} vectors leave a CTA of a cluster of {cluster} without columns")
    if config.shared_bytes > SHARED_BYTES[architecture]:
        raise ValueError(
            f"a row of {columns} columns takes {config.shared_bytes} bytes of shared memory in each of {cluster} CTAs;"
            f" {architecture} has {SHARED_BYTES[architecture]}"
        )
    return config


def _threads_per_row(vectors: int) -> int:
    threads = 1
    while threads < WIDE_THREADS and threads < vectors and (threads < WARP or vectors > threads * VECTORS_PER_THREAD):
        threads *= 2
    while threads >= WIDE_THREADS and threads < MAX_THREADS and vectors > threads * 2 * VECTORS_PER_THREAD:
        threads *= 2
    return threads


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
