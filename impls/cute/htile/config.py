"""The layout of a row-wise kernel: which CTA and which thread has which vectors of a row.

This file imports no cutlass, so layouts are tested without a GPU. `layouts.py` chooses one.
"""

from __future__ import annotations

from dataclasses import dataclass

VECTOR_BYTES = 16
WARP = 32
MAX_THREADS = 1024
MOST_COLUMNS = 2**30  # of a row that is not kept, which numbers of 32 bits count
DENSE_ELEMENTS = 2**31  # where strides are known, an element's place has 32 bits
MAX_CLUSTER = {"sm_90": 16, "sm_100": 16, "sm_103": 16}
SAFE_CLUSTER = 8  # the most CTAs that every GPU of the architecture takes; larger ones leave multiprocessors unused
REGISTERS = 64 * 1024  # of a multiprocessor
SHARED_BYTES = {"sm_90": 227 * 1024, "sm_100": 227 * 1024, "sm_103": 227 * 1024}
KEEPS = ("registers", "l1", "shared")
IN_FLIGHT = 4  # vectors that a thread requests at a time where a row is read twice
LINE_WORDS = 16  # of 64 bits: the cache line of the tag, before the first slot
MAX_WIDTH = 4  # float32 values that a warp sends in one exchange
LINE_VECTORS = 8  # of 16 bytes: a cache line
SECTOR_BYTES = 32  # what memory moves
SHORT_ROW_BYTES = {"registers": 12 * 1024, "l1": 12 * 1024, "shared": 1024}  # rows up to which vectors may be halves of one


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power(n: int) -> int:
    """The least power of two that is n or more."""
    return 1 << (n - 1).bit_length()


def share(vectors: int, ctas: int, least: int) -> int:
    """Vectors of a row for every CTA but the last: whole cache lines, unless that leaves a CTA with nothing.

    Shares of a 297 KiB row that end inside a 32-byte sector reach 96 % of the roof over sixteen CTAs; eight CTAs reach 100.6 %.

    least  vectors that a row has at least
    """
    each = ceil_div(vectors, ctas)
    lines = ceil_div(each, LINE_VECTORS) * LINE_VECTORS
    return lines if 0 < (ctas - 1) * lines < least else each


class Vectors:
    """A row in 16-byte vectors, from `columns`, `itemsize` and `aligned`; `keep` as in RowTileConfig."""

    keep = "registers"

    @property
    def vector(self) -> int:
        """Elements of a 16-byte vector."""
        return VECTOR_BYTES // self.itemsize

    @property
    def vectors(self) -> int:
        """The most vectors of memory from a row's `boundary` to its end."""
        return ceil_div(self.columns + self.lead, self.vector)

    @property
    def boundary(self) -> int:
        """A row's vectors are counted from the last multiple of as many bytes before it."""
        row_bytes = self.columns * self.itemsize
        is_loose = not self.aligned or row_bytes % SECTOR_BYTES
        return LINE_VECTORS * VECTOR_BYTES if is_loose and row_bytes > SHORT_ROW_BYTES[self.keep] else VECTOR_BYTES

    @property
    def lead(self) -> int:
        """The most elements from there to the row's first one."""
        return self.boundary // self.itemsize - (self.vector if self.aligned else 1)

    @property
    def leads(self) -> int:
        """How many vectors may begin before the row."""
        return ceil_div(self.lead, self.vector)

    def is_inner(self, turn: int, beyond: int = 0) -> bool:
        """Vector number `turn` of every thread of every CTA lies wholly in the row, so its columns are not checked.

        beyond  so do as many vectors before and after it
        """
        if turn * self.workers < self.leads + beyond:
            return False
        whole = self.columns // self.vector - (self.ctas - 1) * self.cta_vectors
        return (turn + 1) * self.workers + beyond <= min(self.cta_vectors, whole)

    @property
    def outer_turns(self) -> tuple[int, ...]:
        return tuple(turn for turn in range(self.vectors_per_thread) if not self.is_inner(turn))

    def sides(self, turn: int, beyond: int = 0) -> tuple[bool, bool]:
        """Whether vector number `turn` of a thread may begin before its row, and whether it may be the row's last one.

        beyond  or one of as many vectors before and after it
        """
        last = self.columns - 1
        ends = range(max(0, last // self.vector - beyond), (last + self.lead) // self.vector + 1)
        starts = self.lead > 0 and turn * self.workers <= self.lead // self.vector + beyond
        return starts, any(number % self.cta_vectors // self.workers == turn for number in ends)

    def share(self, ctas: int) -> int:
        """Vectors of a row for every CTA but the last of `ctas`."""
        return share(self.vectors, ctas, self.columns // self.vector)


class Shared:
    """A row that several threads of a CTA share, from `threads_per_row`; `quick` as in RowTileConfig."""

    quick = False

    @property
    def warps_per_row(self) -> int:
        return ceil_div(self.threads_per_row, WARP)

    @property
    def group(self) -> int:
        """Threads of one warp that share a row."""
        return min(WARP, self.threads_per_row)


@dataclass(frozen=True)
class RowTileConfig(Vectors, Shared):
    """The layout of a kernel that gives each row to one CTA or one cluster.

    columns          elements of a row
    itemsize         bytes of an element of the first input
    cluster          CTAs that share a row; each takes `cta_vectors` vectors, and the last CTA takes the rest
    threads          threads of a CTA
    threads_per_row  threads of a CTA that share a row
    keep             where a row stays between its passes: "registers", "shared" (shared memory, filled by cp.async) or
                     "l1" (the row is read twice, the second time from the first-level cache)
    aligned          every row starts on a vector boundary and is whole vectors long. Otherwise a thread's vectors
                     are those of memory, and the first and last vectors of a row are moved element by element
    alike            with rows that start anywhere: those of all matrices start as far behind a boundary
    apart            the CTAs of a row exchange nothing: they are no cluster, may be any number, and the last may be empty
    beside           with "shared": how many of a thread's vectors stay in registers; its first never does
    resident         CTAs that a multiprocessor has room for, by which a thread's registers are limited; 0: no limit
    spread           clusters are few, and `spread_bytes` keep them apart
    quick            latency counts: maxima and sums of softmax are found in fewer steps, of whole warps

    Raises ValueError for threads that are not whole warps, and for a cluster with an empty CTA.
    """

    columns: int
    itemsize: int
    cluster: int = 1
    threads: int = 128
    threads_per_row: int = 32
    keep: str = "registers"
    aligned: bool = True
    alike: bool = False
    apart: bool = False
    beside: int = 0
    resident: int = 0
    spread: bool = False
    quick: bool = False
    from_ends, parts = False, 1  # whether CTAs take rows from both ends in turn; clusters of a row

    def __post_init__(self):
        share = self.threads_per_row
        if share < 1 or (share & (share - 1) if share < WARP else share % WARP):
            raise ValueError(f"threads_per_row must be a power of two below {WARP} or whole warps, not {share}")
        if self.threads % share or self.threads % WARP or not WARP <= self.threads <= MAX_THREADS or self.cluster < 1:
            raise ValueError(f"{self.threads} threads are not whole warps of rows of {share} threads")
        if self.keep not in KEEPS:
            raise ValueError(f"keep must be one of {', '.join(KEEPS)}, not {self.keep}")
        if self.beside and self.keep != "shared":
            raise ValueError(f"no vectors are beside shared memory where rows are kept in {self.keep}")
        if self.columns < 1 or (self.aligned and self.columns % self.vector):
            raise ValueError(f"{self.columns} columns of {self.itemsize} bytes are not whole 16-byte vectors")
        if not self.apart and (self.cluster * self.parts - 1) * self.cta_vectors * self.vector >= self.columns:
            raise ValueError(f"{self.columns} columns leave a CTA of a cluster of {self.cluster} without any")
        if self.cluster > 1 and self.rows > 1:
            raise ValueError("the CTAs of a cluster share one row, not several")

    @property
    def workers(self) -> int:
        return self.threads_per_row

    @property
    def ctas(self) -> int:
        """That share a row."""
        return self.cluster * self.parts

    @property
    def cta_vectors(self) -> int:
        """Vectors of a row in every CTA but the last."""
        return self.share(self.cluster * self.parts)

    def place(self, element: int) -> tuple[int, int]:
        """(CTA of the cluster, thread of the row) that has an element; 0 is the first one of the row's first vector."""
        vector = element // self.vector
        return vector // self.cta_vectors, vector % self.cta_vectors % self.threads_per_row

    @property
    def vectors_per_thread(self) -> int:
        return ceil_div(self.cta_vectors, self.threads_per_row)

    @property
    def tile_columns(self) -> int:
        """Columns of a CTA's tile: its share of a row, rounded up to whole turns of the row's threads."""
        return self.vectors_per_thread * self.threads_per_row * self.vector

    def stage(self, turn: int) -> int:
        """The place in shared memory of vector number `turn` of a thread; -1 for one that stays in registers."""
        return turn if turn == 0 else -1 if turn <= self.beside else turn - self.beside

    @property
    def shared_columns(self) -> int:
        """Columns of a CTA's tile that lie in shared memory."""
        turns = self.vectors_per_thread - self.beside if self.keep == "shared" else 0
        return turns * self.threads_per_row * self.vector

    @property
    def rows(self) -> int:
        """Rows of a CTA that have threads of their own."""
        return self.threads // self.threads_per_row

    @property
    def tiler_mn(self) -> tuple[int, int]:
        return self.rows, self.tile_columns

    @property
    def peers(self) -> int:
        """Warps of the whole cluster that share a row."""
        return self.warps_per_row * self.cluster

    @property
    def is_even(self) -> bool:
        """Every thread of every CTA has `vectors_per_thread` vectors, so no column is checked."""
        return not self.lead and self.tile_columns * self.cluster * self.parts == self.columns

    def shared_bytes(self, tiles: int = 1) -> int:
        """The most shared memory of a CTA: `tiles` tiles if rows stay there, the reduction buffer, its mbarriers."""
        tile = self.rows * self.shared_columns * self.itemsize * tiles
        buffer = self.rows * self.peers * 4 * MAX_WIDTH if self.peers > 1 else 0
        return tile + buffer + (8 if self.cluster > 1 else 0)
