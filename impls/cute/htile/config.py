"""How a row-wise kernel lies on the machine: which CTA and which thread has which vectors of a row.

Nothing here imports cutlass: layouts are tested on a machine without a GPU. Which one is chosen is in `layouts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

VECTOR_BYTES = 16
WARP = 32
MAX_THREADS = 1024
MAX_CLUSTER = {"sm_90": 16, "sm_100": 16, "sm_103": 16}
SHARED_BYTES = {"sm_90": 227 * 1024, "sm_100": 227 * 1024, "sm_103": 227 * 1024}
KEEPS = ("registers", "l1", "shared")
IN_FLIGHT = 4  # vectors that a thread asks for at a time where a row is read twice
UNDER_WAY = 2  # rows that a ring asks for at a time: what waits behind more of them are the pairs of the first
LINE_WORDS = 16  # of 64 bits: a cache line, which the tag has to itself before the first slot
MAX_WIDTH = 4  # float32 values that a warp hands to its peers in one exchange
LINE_VECTORS = 8  # of 16 bytes: a cache line


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def share(vectors: int, ctas: int) -> int:
    """Vectors of a row for every CTA but the last: whole cache lines, unless another CTA would have nothing then.

    A row of 297 KiB over sixteen CTAs in shares that end within a sector of 32 bytes: 96 % of the roof; eight: 100.6.
    """
    least = ceil_div(vectors, ctas)
    lines = ceil_div(least, LINE_VECTORS) * LINE_VECTORS
    return lines if 0 < (ctas - 1) * lines < vectors else least


class _Vectors:
    """What a row is in 16-byte vectors, from `columns`, `itemsize` and `aligned`."""

    @property
    def vector(self) -> int:
        """Elements in a 16-byte vector."""
        return VECTOR_BYTES // self.itemsize

    @property
    def vectors(self) -> int:
        """Vectors of memory that a row touches, at most."""
        return ceil_div(self.columns + (0 if self.aligned else self.vector - 1), self.vector)


@dataclass(frozen=True)
class ElementwiseTileConfig(_Vectors):
    """The layout of one row-wise kernel.

    columns          elements in a row
    itemsize         bytes of an element of the first input
    cluster          CTAs that share a row; each takes `cta_vectors` vectors, the last one what is left
    threads          threads in a CTA
    threads_per_row  threads that share a row within a CTA
    keep             where a row stays between its passes: "registers", "l1" (it is read twice, and the second time
                     the first-level cache serves it) or "shared" (shared memory, filled by cp.async)
    aligned          whether every row starts on a vector boundary and is whole vectors long. Otherwise a thread's
                     vectors are those of memory, and the first and the last of a row are taken element by element
    rows_per_thread  rows of which a thread has vectors in the same columns: what comes once a column serves them all

    Raises ValueError for threads that are not whole warps, for a CTA of a cluster that would have no columns, and for
    several rows a thread that are not aligned, or of which a CTA has several.
    """

    columns: int
    itemsize: int
    cluster: int = 1
    threads: int = 128
    threads_per_row: int = 32
    keep: str = "registers"
    aligned: bool = True
    rows_per_thread: int = 1

    def __post_init__(self) -> None:
        share = self.threads_per_row
        if share < 1 or (share & (share - 1) if share < WARP else share % WARP):
            raise ValueError(f"threads_per_row must be a power of two below {WARP} or whole warps, not {share}")
        if self.threads % share or self.threads % WARP or not WARP <= self.threads <= MAX_THREADS or self.cluster < 1:
            raise ValueError(f"{self.threads} threads are not whole warps of rows of {share} threads")
        if self.keep not in KEEPS:
            raise ValueError(f"keep must be one of {', '.join(KEEPS)}, not {self.keep}")
        if self.columns < 1 or (self.aligned and self.columns % self.vector):
            raise ValueError(f"{self.columns} columns of {self.itemsize} bytes are not whole 16-byte vectors")
        if (self.cluster - 1) * self.cta_vectors * self.vector >= self.columns:
            raise ValueError(f"{self.columns} columns leave a CTA of a cluster of {self.cluster} without any")
        if self.cluster > 1 and self.rows > 1:
            raise ValueError("the CTAs of a cluster share one row, not several")
        if self.rows_per_thread > 1 and (self.rows > 1 or not self.aligned):
            raise ValueError("threads with several rows have all columns of them, on vector boundaries")

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA of the cluster but the last."""
        return share(self.vectors, self.cluster)

    @property
    def vectors_per_thread(self) -> int:
        return ceil_div(self.cta_vectors, self.threads_per_row)

    @property
    def tile_columns(self) -> int:
        """Columns of a CTA's tile: its share of a row, rounded up to whole turns of the threads of a row."""
        return self.vectors_per_thread * self.threads_per_row * self.vector

    @property
    def rows(self) -> int:
        """Rows of a CTA that have threads of their own."""
        return self.threads // self.threads_per_row

    @property
    def tiler_mn(self) -> tuple[int, int]:
        return self.rows, self.tile_columns

    @property
    def warps_per_row(self) -> int:
        return ceil_div(self.threads_per_row, WARP)

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
        """Whether every thread of every CTA has `vectors_per_thread` vectors, so that no column is checked."""
        return self.aligned and self.tile_columns * self.cluster == self.columns

    def is_inner(self, turn: int) -> bool:
        """Whether every thread's vector number `turn`, in every CTA, lies wholly in the row: no column is checked."""
        if not self.aligned and turn == 0:
            return False
        reached = (turn + 1) * self.threads_per_row
        whole = self.columns // self.vector - (self.cluster - 1) * self.cta_vectors
        return reached <= min(self.cta_vectors, whole)

    @property
    def outer_turns(self) -> tuple[int, ...]:
        return tuple(turn for turn in range(self.vectors_per_thread) if not self.is_inner(turn))

    def shared_bytes(self, tiles: int = 1) -> int:
        """Shared memory of a CTA, at most: `tiles` tiles where rows are kept there, the reduction buffer, its mbarriers."""
        rows = self.rows * self.rows_per_thread
        tile = rows * self.tile_columns * self.itemsize * tiles if self.keep == "shared" else 0
        buffer = rows * self.peers * 4 * MAX_WIDTH if self.peers > 1 else 0
        return tile + buffer + (8 * self.rows_per_thread if self.cluster > 1 else 0)


@dataclass(frozen=True)
class SplitTileConfig(_Vectors):
    """The layout of a kernel that splits every row over the whole GPU.

    columns   elements in a row
    itemsize  bytes of an element of the input
    ctas      CTAs that share a row; all of them are on the GPU at once
    threads   threads in a CTA that have vectors; the couriers beside them carry rows and pairs
    stages    rows of which a CTA's shares are in shared memory at a time, a ring; 1: rows are taken one after the other,
              each in registers; 0: so, but a row is read twice from global memory
    team      CTAs whose pairs one of them merges and passes on; 1: every CTA reads those of all
    aligned   as in ElementwiseTileConfig
    """

    columns: int
    itemsize: int
    ctas: int
    threads: int
    stages: int
    team: int = 1
    aligned: bool = True

    @property
    def is_ring(self) -> bool:
        return self.stages > 1

    @property
    def workers(self) -> int:
        """Threads that take a row between them; in a ring one half of all reduces and the other one writes."""
        return self.threads // 2 if self.is_ring else self.threads

    @property
    def couriers(self) -> int:
        """Warps. In a ring they bring rows, send, relay and fetch pairs; else one sends and relays, one fetches."""
        return 4 if self.is_ring else 2

    @property
    def cta_threads(self) -> int:
        return self.threads + self.couriers * WARP

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA but the last."""
        return share(self.vectors, self.ctas)

    @property
    def vectors_per_thread(self) -> int:
        return ceil_div(self.cta_vectors, self.workers)

    @property
    def bursts(self) -> int:
        """Turns of IN_FLIGHT vectors a thread where a row is read twice."""
        return ceil_div(self.vectors_per_thread, IN_FLIGHT)

    @property
    def held(self) -> int:
        """Rows of which a CTA's shared memory says something at a time."""
        return max(1, self.stages)

    @property
    def slots(self) -> int:
        """Rows whose pairs have places of their own: a place is overwritten only when all have read it.

        Those of a ring are twice its stages and the row that the writers have. Who sends a row's pair has written the one
        before the last in its stage, for which all had sent theirs, who had by then written the row whose place it takes.
        """
        return 2 * (self.stages + 1) if self.is_ring else 2

    @property
    def shared_bytes(self) -> int:
        """Of the ring, of what is said about its rows, and of the driver's, at most."""
        about = self.held * (8 * self.workers // WARP + 64) + 256
        return 1024 + about + (self.stages * self.cta_vectors * VECTOR_BYTES if self.is_ring else 0)

    @property
    def teams(self) -> int:
        return ceil_div(self.ctas, self.team)

    @property
    def workspace_words(self) -> int:
        """Words of 64 bits: the tag's line, and two for each slot of each CTA and team."""
        return ceil_div(LINE_WORDS + 2 * self.slots * (self.ctas + self.teams), LINE_WORDS) * LINE_WORDS
