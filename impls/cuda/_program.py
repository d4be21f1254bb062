"""The launches of a call, as data: kernels with their grids, and their numeric arguments."""

import struct
from dataclasses import dataclass

from softbench import Unsupported

VECTOR_BYTES = 16
UNROLL = 4  # vectors in flight per thread, as in the kernels
THREADS = 256
FAN = 1024  # parts that a block merges at a level, as in the kernels
# The kernels number chunks with 32 bits, and a grid has no more than 2**31 - 1 blocks.
MOST_CHUNKS = 2**31 - 1
# The structure `Arguments` of the kernels: four pointers, six numbers of 64 bits, seven of 32, padding.
ARGUMENTS = struct.Struct("@QQQQqqqqqqIIIIIII4x")
LEVEL = struct.Struct("@qqII")


@dataclass(frozen=True)
class Shape:
    """rows x columns, both at least 1, of `itemsize` bytes an element.

    aligned  every row begins at a multiple of 16 bytes; else one vector more may be touched
    """

    rows: int
    columns: int
    itemsize: int
    aligned: bool

    @property
    def vectors(self) -> int:
        """16-byte vectors that a row touches at most."""
        width = VECTOR_BYTES // self.itemsize
        return -(-(self.columns + (0 if self.aligned else width - 1)) // width)

    @property
    def input_bytes(self) -> int:
        return self.rows * self.columns * self.itemsize


@dataclass(frozen=True)
class Gpu:
    """Multiprocessors, bytes of the second-level cache, blocks of the cooperative kernel to a multiprocessor."""

    processors: int
    l2_bytes: int
    residents: int = 2


@dataclass(frozen=True)
class Step:
    """One launch of a kernel, which waits for the previous launch itself. level: constant second parameter."""

    kernel: str
    blocks: int
    threads: int = THREADS
    level: bytes = b""
    shared_bytes: int = 0
    cooperative: bool = False


@dataclass(frozen=True)
class Program:
    """The launches of a call, in order, and the numbers of `Arguments` (see kernels/rows.cuh).

    floats  of workspace for partial results
    words   of 64 bits for the exchange of a cooperative launch
    """

    steps: tuple[Step, ...]
    rows: int
    chunk_vectors: int
    chunks: int
    group: int
    finals: int = 0
    sums: int = 0
    totals: int = 0
    lanes: int = 0
    kept: int = 0
    retain: bool = False
    floats: int = 0
    words: int = 0

    def arguments(self) -> tuple[int, ...]:
        """What follows the pointers, the columns and the row stride in ARGUMENTS."""
        units = self.rows * self.chunks % 2**32  # read only where it is not more than MOST_CHUNKS
        counts = (self.rows, self.chunks, units, self.group, self.lanes, self.kept, int(self.retain))
        return (self.chunk_vectors, self.finals, self.sums, self.totals, *counts)


@dataclass(frozen=True)
class Tiling:
    """`chunks` a row, each of `chunk_vectors`, read by `group` threads; `blocks` of THREADS hold all groups."""

    chunk_vectors: int
    chunks: int
    group: int
    units: int
    blocks: int


def tiling(shape: Shape, gpu: Gpu, most_chunks: int = MOST_CHUNKS) -> Tiling:
    """Cut rows into chunks of up to UNROLL vectors per thread; of more if a row would have more than most_chunks.

    A thread takes several vectors only where all multiprocessors keep 1024 threads. Raises Unsupported for more chunks
    than the kernels can number.
    """
    vectors = shape.vectors
    busy = shape.rows * vectors // (gpu.processors * 1024)
    per_thread = UNROLL if busy >= UNROLL else 2 if busy >= 2 else 1
    group = min(THREADS, power_of_two(-(-vectors // per_thread)))
    tile = group * per_thread
    tiles = -(-vectors // tile)
    if tiles > most_chunks:
        chunk_vectors = -(-tiles // most_chunks) * tile
    elif tiles > 1:
        # Even chunks of whole warps: each begins where a warp's 512 bytes do, and none is left with a single vector.
        chunk_vectors = -(-vectors // (32 * tiles)) * 32
    else:
        chunk_vectors = vectors
    chunks = -(-vectors // chunk_vectors)
    units = numbered(shape.rows, chunks)
    return Tiling(chunk_vectors, chunks, group, units, -(-units * group // THREADS))


def numbered(rows: int, chunks: int) -> int:
    """rows * chunks; raises Unsupported where the kernels cannot number so many."""
    if rows * chunks > MOST_CHUNKS:
        raise Unsupported(f"{rows} rows in {chunks} chunks each are more than {MOST_CHUNKS} chunks")
    return rows * chunks


def levels(kernel: str, rows: int, count: int, place: int) -> tuple[list[Step], int, int]:
    """Launches that reduce `count` parts a row at `place` of the workspace to one, where that is, and the next place."""
    steps, end = [], place + rows * count
    while count > 1:
        merged = -(-count // FAN)
        steps.append(Step(kernel, rows * merged, level=LEVEL.pack(place, end, count, merged)))
        place, count = end, merged
        end += rows * count
    return steps, place, end


def power_of_two(count: int) -> int:
    """The smallest power of two that is not below count."""
    return 1 << (count - 1).bit_length()
