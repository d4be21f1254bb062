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
KEEPS = ("registers", "l1", "shared")
COURIER_THREADS = 2 * WARP  # of a CTA beside `SplitTileConfig.threads`: they carry the pairs
IN_FLIGHT = 4  # vectors that a thread asks for at a time where a row is read twice
LINE_WORDS = 16  # of 64 bits: a cache line, which a group's tag has to itself before the first slot


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

    Raises ValueError for threads that are not whole warps, and for a CTA of a cluster that would have no columns.
    """

    columns: int
    itemsize: int
    cluster: int = 1
    threads: int = 128
    threads_per_row: int = 32
    keep: str = "registers"
    aligned: bool = True

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

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA of the cluster but the last."""
        return ceil_div(self.vectors, self.cluster)

    @property
    def vectors_per_thread(self) -> int:
        return ceil_div(self.cta_vectors, self.threads_per_row)

    @property
    def tile_columns(self) -> int:
        """Columns of a CTA's tile: its share of a row, rounded up to whole turns of the threads of a row."""
        return self.vectors_per_thread * self.threads_per_row * self.vector

    @property
    def rows(self) -> int:
        """Rows of a CTA."""
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

    def shared_bytes(self, tiles: int = 1, width: int = 2, stage: int = 1) -> int:
        """Shared memory of a CTA: `tiles` tiles where rows are kept there, the reduction buffer and its mbarriers.

        width  float32 values that a warp hands to its peers in one exchange
        stage  exchanges
        """
        tile = self.rows * self.tile_columns * self.itemsize * tiles if self.keep == "shared" else 0
        buffer = self.rows * self.peers * 4 * width * stage if self.peers > 1 else 0
        return tile + buffer + (8 * stage if self.cluster > 1 else 0)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class SplitTileConfig(_Vectors):
    """The layout of a kernel that splits every row over the whole GPU.

    columns   elements in a row
    itemsize  bytes of an element of the input
    ctas      CTAs that share a row; all CTAs of all groups are on the GPU at once
    threads   threads in a CTA that have vectors; COURIER_THREADS more carry the pairs
    stages    rows of which a CTA's shares are in shared memory at a time; 0: a row is read twice from global memory
    groups    groups of CTAs that take the rows in turn
    team      CTAs whose pairs one of them merges and passes on; 1: every CTA reads those of all
    aligned   as in ElementwiseTileConfig
    """

    columns: int
    itemsize: int
    ctas: int
    threads: int
    stages: int
    team: int = 1
    groups: int = 1
    aligned: bool = True

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA but the last."""
        return ceil_div(self.vectors, self.ctas)

    @property
    def vectors_per_thread(self) -> int:
        return ceil_div(self.cta_vectors, self.threads)

    @property
    def bursts(self) -> int:
        """Turns of IN_FLIGHT vectors a thread where a row is read twice."""
        return ceil_div(self.vectors_per_thread, IN_FLIGHT)

    @property
    def relay_lag(self) -> int:
        """Rows between the sending of a CTA's own pair and the merging of its team's."""
        return 0 if self.team == 1 else 1 if self.stages < 6 else 2

    @property
    def lookahead(self) -> int:
        """Rows whose pair is sent before the first of them is waited for: time for a pair to come around."""
        return max(1, 2 * self.relay_lag)

    @property
    def slots(self) -> int:
        """Rows whose pairs have places of their own: a place is overwritten only when all have read it."""
        return 2 * self.lookahead + 2

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.vectors_per_thread * self.threads * VECTOR_BYTES + 1024

    @property
    def teams(self) -> int:
        return ceil_div(self.ctas, self.team)

    @property
    def group_words(self) -> int:
        """Words of 64 bits for a group, in whole lines: the tag, and two for each slot of each CTA and team."""
        return ceil_div(LINE_WORDS + 2 * self.slots * (self.ctas + self.teams), LINE_WORDS) * LINE_WORDS

    @property
    def workspace_words(self) -> int:
        return self.groups * self.group_words


# Measured on an H200 (docs/performance.md). Rows of up to SINGLE_BYTES stay in one CTA and in registers, with two vectors
# a thread: what is in flight is then 64 KiB a multiprocessor. Longer rows lie in shared memory, which leaves registers
# for more CTAs, and are split over a cluster into shares of SHARE_BYTES with four vectors a thread. Past a cluster of
# eight, the largest that every GPU takes, the shares grow up to PORTABLE_SHARE_BYTES before the cluster does: sixteen gain
# 0.3 % over thousands of rows of 256 KiB and cost sixteen such rows, of which only half then run at once, a third.
SINGLE_BYTES = 16 * 1024
SHARE_BYTES = 16 * 1024
PORTABLE_SHARE_BYTES = 40 * 1024
PORTABLE_CLUSTER = 8
MIN_THREADS = 128
SHARE_THREADS = 448
MAX_VECTORS = 16
SHORT_BYTES = 512  # of a row: more of them a CTA
SHORT_ROWS_THREADS = 256
# Two exchanges: fewer threads that wait.
FEW_THREADS = 256
LARGE_SHARE_BYTES = 32 * 1024
# An unaligned row in registers has its first and last vectors cut to size there, which costs 16-bit rows a sixth.
UNALIGNED_SINGLE_BYTES = 4 * 1024
UNALIGNED_SHARE_BYTES = 32 * 1024


def choose(
    columns: int, itemsize: int, architecture: str = "sm_90", aligned: bool = True, tiles: int = 1, exchanges: int = 1
) -> ElementwiseTileConfig:
    """The layout for rows of `columns` elements of `itemsize` bytes.

    tiles      matrices that are kept until their last use
    exchanges  reductions of which each waits for the one before
    Raises ValueError, with a reason in one line, where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}; there is one for {', '.join(MAX_CLUSTER)}")
    whole = ElementwiseTileConfig(columns, itemsize, aligned=aligned)
    row_bytes = whole.vectors * VECTOR_BYTES
    if row_bytes <= (SINGLE_BYTES if aligned else UNALIGNED_SINGLE_BYTES):
        return _single(whole, exchanges)
    layout = _shares if exchanges == 1 else _few_large_shares
    cluster, threads = layout(whole, MAX_CLUSTER[architecture])
    config = ElementwiseTileConfig(columns, itemsize, cluster, threads, threads, "shared", aligned)
    room = SHARED_BYTES[architecture]
    if config.shared_bytes(tiles, stage=exchanges) > room or config.vectors_per_thread > MAX_VECTORS:
        raise ValueError(f"a row of {columns} elements of {itemsize} bytes is more than a cluster keeps")
    return config


def _single(whole: ElementwiseTileConfig, exchanges: int) -> ElementwiseTileConfig:
    """One CTA a row, or several rows a CTA, in registers."""
    share = min(_threads(whole.vectors, 2), MAX_THREADS if exchanges == 1 else FEW_THREADS)
    least = SHORT_ROWS_THREADS if whole.vectors * VECTOR_BYTES <= SHORT_BYTES else MIN_THREADS
    threads = share if share >= least else ceil_div(least, share) * share
    return ElementwiseTileConfig(whole.columns, whole.itemsize, 1, threads, share, aligned=whole.aligned)


def _shares(whole: ElementwiseTileConfig, largest: int) -> tuple[int, int]:
    """(cluster, threads of a CTA) for one exchange."""
    row_bytes = whole.columns * whole.itemsize
    target = SHARE_BYTES if whole.aligned else UNALIGNED_SHARE_BYTES
    if row_bytes <= target * PORTABLE_CLUSTER:
        cluster = _power(ceil_div(row_bytes, target))
    else:
        cluster = PORTABLE_CLUSTER if row_bytes <= PORTABLE_SHARE_BYTES * PORTABLE_CLUSTER else largest
    share = ceil_div(whole.vectors, cluster)
    short = row_bytes <= SHARE_BYTES * cluster
    threads = _threads(share, 4) if short else min(SHARE_THREADS, _threads(share, 6))
    return cluster, threads if share <= 10 * threads else _threads(share, 8)


def _few_large_shares(whole: ElementwiseTileConfig, largest: int) -> tuple[int, int]:
    """(cluster, threads of a CTA) for two: the more CTAs wait for one another, the longer."""
    cluster = min(_power(ceil_div(whole.columns * whole.itemsize, LARGE_SHARE_BYTES)), largest)
    share = ceil_div(whole.vectors, cluster)
    return cluster, _threads(share, 8 if cluster >= PORTABLE_CLUSTER and whole.itemsize == 4 else 16)


def _threads(vectors: int, each: int) -> int:
    """Threads for so many vectors, `each` a thread: a power of two within a warp, whole warps beyond."""
    threads = ceil_div(vectors, each)
    if threads <= WARP:
        return _power(threads)
    return min(MAX_THREADS, ceil_div(threads, WARP) * WARP)


def _power(n: int) -> int:
    """The least power of two from n on."""
    return 1 << (n - 1).bit_length()
