"""Moving vectors of 16 bytes: global -> shared (asynchronous), global -> registers, registers -> global.

Where a row starts or ends inside a vector of memory, its first and last elements are moved one by one: nothing outside
the matrix is touched.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Int32, Int64, const_expr
from cutlass.cute.nvgpu import CacheEvictionPriority, CopyG2ROp, CopyR2GOp, LoadCacheMode, StoreCacheMode, cpasync

from .config import VECTOR_BYTES, RowTileConfig

REUSE = {
    "none": CacheEvictionPriority.EVICT_NORMAL,
    "soon": CacheEvictionPriority.EVICT_LAST,
    "over": CacheEvictionPriority.EVICT_FIRST,
}
# From this size on, a matrix's lines are loaded to stay in the second-level cache (`evict_last`). Output then leaves the
# cache soon and in order, which memory takes 1 to 4 % faster (docs/notes/performance.md). A smaller matrix may share the cache
# with its output, which the next kernel reads and which must not be pushed out.
RETAIN_BYTES = 8 * 2**20


def l2_policy(name: str) -> Int64:
    """A second-level cache policy: "evict_normal", "evict_last", ... for every access."""
    return cute.arch.inline_ptx(f"createpolicy.fractional.L2::{name}.b64 {{$w0}}, 1.0;", write_only_types=[Int64])


def retaining_policy(rows: Int64, row_bytes: int) -> Int64:
    """evict_last for a matrix of RETAIN_BYTES or more, else evict_normal."""
    keep, normal = l2_policy("evict_last"), l2_policy("evict_normal")
    return cutlass.select_(rows * row_bytes >= RETAIN_BYTES, keep, normal)


class HintedAtom:
    """A copy atom and its cache policy. as_ptx: the DSL's cp.async takes no policy, so with one it is written as PTX."""

    def __init__(self, atom: cute.CopyAtom, bits: int, policy: Int64 | None = None, as_ptx: bool = False):
        self.atom, self.bits, self.policy, self.as_ptx = atom, bits, policy, as_ptx and policy is not None

    def copy(self, source: cute.Tensor, destination: cute.Tensor):
        """Copy a vector: 16 bytes, or 8 of a dtype of half the width."""
        if self.as_ptx:
            copy_async(source, destination, cute.size(source) * source.element_type.width // 8, self.policy)
        else:
            cute.copy(self.atom, source, destination, **({} if self.policy is None else {"cache_policy": self.policy}))


def copy_async(source: cute.Tensor, target: cute.Tensor, bytes_: int, policy: Int64 | None = None):
    """4, 8 or 16 bytes, global -> shared. `.cg`, which 16 may have, bypasses the first-level cache: a row is read once."""
    mode, hint, last = "cg" if bytes_ == VECTOR_BYTES else "ca", "", ""
    if policy is not None:
        hint, last = ".L2::cache_hint", ", {$r2}"
    cute.arch.inline_ptx(
        f"cp.async.{mode}.shared.global{hint} [{{$r0}}], [{{$r1}}], {bytes_}{last};",
        read_only_args=[target.iterator.toint(), source.iterator.toint(), *([] if policy is None else [policy])],
    )


def bulk_copy(source: cute.Pointer, target: cute.Pointer, size: Int32, barrier: cute.Pointer, policy: Int64):
    """`size` bytes, whole vectors, global -> shared, by one thread; an mbarrier counts their arrival."""
    cute.arch.inline_ptx(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{$r0}], [{$r1}], {$r2}, [{$r3}], {$r4};",
        read_only_args=[target.toint(), source.toint(), size, barrier.toint(), policy],
    )


def bulk_prefetch(source: cute.Pointer, size: Int32):
    """`size` bytes, whole vectors, global -> the second-level cache, by one thread."""
    cute.arch.inline_ptx("cp.async.bulk.prefetch.L2.global [{$r0}], {$r1};", read_only_args=[source.toint(), size])


def asynchronous(dtype: type[cutlass.Numeric], policy: Int64 | None = None, bits: int = 128) -> HintedAtom:
    """Global -> shared."""
    mode = LoadCacheMode.GLOBAL if bits == 128 else LoadCacheMode.ALWAYS
    operation = cpasync.CopyG2SOp(cache_mode=mode)
    return HintedAtom(cute.make_copy_atom(operation, dtype, num_bits_per_copy=bits), bits, policy, as_ptx=True)


def loading(dtype: type[cutlass.Numeric], policy: Int64 | None = None, reuse: str = "none", bits: int = 128) -> HintedAtom:
    """Global -> registers. reuse: the hint for the first-level cache, "none", "soon" or "over"."""
    atom = cute.make_copy_atom(CopyG2ROp(), dtype, num_bits_per_copy=bits, l1c_evict_priority=REUSE[reuse])
    return HintedAtom(atom, bits, policy)


def storing(dtype: type[cutlass.Numeric], bits: int = 128, streams: bool = False) -> HintedAtom:
    """Registers -> global. streams: lines need not stay in the cache."""
    words = {"store_cache_mode": StoreCacheMode.STREAMING} if streams else {}
    return HintedAtom(cute.make_copy_atom(CopyR2GOp(), dtype, num_bits_per_copy=bits, **words), bits)


class Partition:
    """A thread's vectors of one matrix: (vector, turns) in global memory.

    bytes       of a vector: 16, 32 of a dtype that is wider than the first matrix's, 8 of one that is narrower
    straight    whether they start on 16 bytes, or on 8: True where the compiler knows it, else a Boolean of the thread
    start, end  the addresses of the matrix
    """

    def __init__(self, vectors: cute.Tensor, is_straight: bool, matrix: cute.Tensor) -> None:
        self.vectors, self.straight = vectors, True
        self.bytes = cute.size(vectors, mode=[0]) * matrix.element_type.width // 8
        least = min(VECTOR_BYTES, self.bytes)
        if is_straight:
            self.vectors = cute.make_tensor(vectors.iterator.align(least), vectors.layout)
        else:
            self.straight = vectors.iterator.toint() % least == 0
        self.start = matrix.iterator.toint()
        self.end = end_of(matrix)


def end_of(matrix: cute.Tensor) -> Int64:
    """The address behind a matrix's last element."""
    rows, columns = matrix.shape
    elements = (Int64(rows) - 1) * matrix.stride[0] + columns
    return matrix.iterator.toint() + elements * (matrix.element_type.width // 8)


def tiled_copy_2d(config: RowTileConfig, dtype: type[cutlass.Numeric]) -> cute.TiledCopy:
    """Threads (rows, threads_per_row), rows slowest; each takes one vector of the first input's width."""
    threads = cute.make_ordered_layout((config.rows, config.threads_per_row), order=(1, 0))
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype)
    return cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, config.vector)))


def predicate_k(coordinates: cute.Tensor, first: Int32, last: Int32) -> cute.Tensor:
    """Which of a thread's vectors lie wholly in columns [first, last): Boolean (vectors, rows, turns).

    coordinates  ((vector, rows), 1, turns) of (row, column), an identity tensor in a tiled copy's partition
    A vector is moved whole or not at all, so it has one bit; all rows end at the same column, so their stride is 0.
    """
    rows, turns = cute.size(coordinates, mode=[1]), cute.size(coordinates, mode=[2])
    layout = cute.make_layout((1, rows, turns), stride=(turns, 0, 1))
    inside = cute.make_rmem_tensor(layout, Boolean)
    width = cute.size(coordinates, mode=[0])
    for turn in range(turns):
        column = coordinates[0, 0, turn][1]
        inside[0, 0, turn] = (column >= first) & (column + width <= last)
    return inside


@cute.jit
def vector_copy(hinted: HintedAtom, source: cute.Tensor, destination: cute.Tensor):
    """Copy (elements,) in pieces of the atom's bits, or all if they are fewer; both start on as many."""
    size, bits = cute.size(source), hinted.atom.value_type.width
    width = const_expr(min(size, hinted.bits // bits))
    source, destination = (
        cute.make_tensor(vector.iterator.align(width * bits // 8), vector.layout) for vector in (source, destination)
    )
    for piece in cutlass.range_constexpr(cute.size(source) // width):
        part, target = (cute.local_tile(t, (width,), (piece,)) for t in (source, destination))
        hinted.copy(part, target)


def load_shared(source: cute.Pointer, words: cute.Tensor):
    """4, 8 or a multiple of 16 bytes of shared memory to registers.

    volatile: a compiler that may reuse what it has read would keep the whole row in registers.
    """
    count = cute.size(words)
    each = min(4, count)
    names = ", ".join(f"{{$w{i}}}" for i in range(each))
    form, names = (f".v{each}", f"{{{names}}}") if each > 1 else ("", names)
    for first in range(0, count, each):
        read = cute.arch.inline_ptx(
            f"ld.volatile.shared{form}.b32 {names}, [{{$r0}}];",
            write_only_types=[Int32] * each,
            read_only_args=[source.toint() + 4 * first],
        )
        for i in range(each):
            words[first + i] = read[i] if each > 1 else read


@cute.jit
def edge_copy(source: cute.Tensor, destination: cute.Tensor, edges: tuple):
    """Copy those of (elements,) that lie in the row, one by one.

    edges  whether there may be any, the column of the first element, the columns of the row, its sides that may be met
    """
    touched, column, columns, sides = edges
    if touched:
        elements = anywhere(source)
        for i in cutlass.range_constexpr(cute.size(source)):
            if inside(column + i, 1, columns, sides):
                destination[i] = elements[i]


def anywhere(source: cute.Tensor) -> cute.Tensor:
    """The same, if it is global memory at an address that the assembler thinks may lie anywhere: all grids have a depth of 1.

    Of four reads of a vector on 16 bytes, each with its condition, it makes one read, which may leave the matrix.
    """
    if source.memspace != cute.AddressSpace.gmem:
        return source
    return cute.make_tensor(source.iterator + cute.arch.block_idx()[2], source.layout)


def hide(vector: cute.Tensor):
    """Change nothing, which the assembler does not know."""
    words = cute.recast_tensor(vector, Int32)
    for i in range(cute.size(words)):
        words[i] = words[i] ^ cute.arch.block_idx()[2]


def inside(column: Int32, count: int, columns: Int32, sides: tuple[bool, bool]) -> Boolean | bool:
    """Whether `count` columns are the row's; sides: whether they may begin before it, or end behind it."""
    starts, ends = (column >= 0) if sides[0] else True, (column + (count - 1) < columns) if sides[1] else True
    return starts & ends


@cute.jit
def bounded_copy(atom: HintedAtom, source: cute.Tensor, destination: cute.Tensor, whole: Boolean, edges: tuple | None):
    """`vector_copy` for a whole vector, else `edge_copy`; with edges None a vector that is not whole is not there."""
    if whole:
        vector_copy(atom, source, destination)
    else:
        if const_expr(edges is not None):
            edge_copy(source, destination, edges)


@cute.jit
def filled_copy(atom: HintedAtom, source: cute.Tensor, destination: cute.Tensor, whole: Boolean, edges: tuple | None, fill: float):
    """`bounded_copy` to shared memory, asynchronous for a whole vector; elements outside the row become `fill`."""
    if whole:
        vector_copy(atom, source, destination)
    else:
        kept = cute.make_rmem_tensor_like(destination)
        kept.fill(kept.element_type(fill))
        if const_expr(edges is not None):
            edge_copy(source, kept, edges)
        cute.autovec_copy(kept, destination)


@cute.jit
def trim(vector: cute.Tensor, column: Int32, columns: Int32, value: cutlass.Numeric, sides: cutlass.Constexpr[tuple[bool, bool]]):
    """Set the elements of a vector outside its row to `value`; column: of its first element; sides: as in `inside`."""
    if not inside(column, cute.size(vector), columns, sides):
        for i in cutlass.range_constexpr(cute.size(vector)):
            if not inside(column + i, 1, columns, sides):
                vector[i] = value


@cute.jit
def clear(vector: cute.Tensor, whole: Boolean, touched: Boolean | bool, column: Int32, columns: Int32, value: cutlass.Numeric):
    """`trim` for a vector that is not `whole`; one that is not `touched` is outside."""
    if not whole:
        for i in cutlass.range_constexpr(cute.size(vector)):
            if (column + i < 0) | (column + i >= columns) | (not touched):
                vector[i] = value


@cute.jit
def fill_oob(vector: cute.Tensor, inside: Boolean, value: cutlass.Numeric):
    """Set a vector that is not `inside` to `value`."""
    if not inside:
        outside = cute.make_rmem_tensor_like(vector)
        outside.fill(value)
        cute.autovec_copy(outside, vector)
