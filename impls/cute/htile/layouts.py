"""Which layout rows get: a pure function of columns, element size and architecture, without cutlass."""

from __future__ import annotations

from dataclasses import replace

from .config import (
    MAX_CLUSTER,
    MAX_THREADS,
    SHARED_BYTES,
    VECTOR_BYTES,
    WARP,
    ElementwiseTileConfig,
    ceil_div,
    share,
)

# Measured on an H200 (docs/performance.md). Rows of up to SINGLE_BYTES stay in one CTA and in registers, with two vectors
# a thread: what is in flight is then 64 KiB a multiprocessor. Longer rows lie in shared memory, which leaves registers
# for more CTAs, and are split over a cluster into shares of SHARE_BYTES with four vectors a thread. Past the largest
# cluster the shares grow.
SINGLE_BYTES = 16 * 1024
SHARE_BYTES = 16 * 1024
MIN_THREADS = 128
SHARE_THREADS = 448
MAX_VECTORS = 16
SHORT_BYTES = 512  # of a row: more of them a CTA
SHORT_ROWS_THREADS = 256
# Two exchanges: fewer threads that wait.
WIDE_CLUSTER = 8
FEW_THREADS = 256
LARGE_SHARE_BYTES = 32 * 1024
# An unaligned row in registers has its first and last vectors cut to size there, which costs 16-bit rows a sixth.
UNALIGNED_SINGLE_BYTES = 4 * 1024
UNALIGNED_SHARE_BYTES = 32 * 1024
# Of float32 it costs nothing, and registers gain 3 to 4 % over shared memory.
UNALIGNED_REGISTER_BYTES = 256 * 1024
UNALIGNED_REGISTER_SHARE_BYTES = 28 * 1024
# Few rows: the GPU is not full, so that time is latency. More CTAs a row and registers: 16 rows of 256 KiB take 4.9 us,
# in the layout for many rows 7.2; from 64 rows on they lose.
FEW_SHARE_BYTES = 8 * 1024


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
    in_registers = not aligned and itemsize == 4 and exchanges == tiles == 1 and row_bytes <= UNALIGNED_REGISTER_BYTES
    whole = replace(whole, keep="registers" if in_registers else "shared")
    layout = _shares if exchanges == 1 else _few_large_shares
    cluster, threads = layout(whole, MAX_CLUSTER[architecture])
    config = replace(whole, cluster=cluster, threads=threads, threads_per_row=threads)
    room = SHARED_BYTES[architecture]
    if config.shared_bytes(tiles, stage=exchanges) > room or config.vectors_per_thread > MAX_VECTORS:
        raise ValueError(f"a row of {columns} elements of {itemsize} bytes is more than a cluster keeps")
    return config


def choose_few(columns: int, itemsize: int, architecture: str = "sm_90") -> ElementwiseTileConfig:
    """The layout for a few aligned rows, of 64 KiB to 1 MiB each, which do not fill the GPU."""
    vectors = ceil_div(columns * itemsize, VECTOR_BYTES)
    cluster = min(MAX_CLUSTER[architecture], _power(ceil_div(columns * itemsize, FEW_SHARE_BYTES)))
    each = share(vectors, cluster)
    threads = 128 if each <= 4 * 128 else 256 if each <= 8 * 256 else 512
    return ElementwiseTileConfig(columns, itemsize, cluster, threads, threads, "registers")


def _single(whole: ElementwiseTileConfig, exchanges: int) -> ElementwiseTileConfig:
    """One CTA a row, or several rows a CTA, in registers."""
    each = min(_threads(whole.vectors, 2), MAX_THREADS if exchanges == 1 else FEW_THREADS)
    least = SHORT_ROWS_THREADS if whole.vectors * VECTOR_BYTES <= SHORT_BYTES else MIN_THREADS
    threads = each if each >= least else ceil_div(least, each) * each
    return ElementwiseTileConfig(whole.columns, whole.itemsize, 1, threads, each, aligned=whole.aligned)


def _shares(whole: ElementwiseTileConfig, largest: int) -> tuple[int, int]:
    """(cluster, threads of a CTA) for one exchange."""
    row_bytes = whole.columns * whole.itemsize
    in_registers = whole.keep == "registers"
    unaligned = UNALIGNED_REGISTER_SHARE_BYTES if in_registers else UNALIGNED_SHARE_BYTES
    cluster = min(largest, _power(ceil_div(row_bytes, SHARE_BYTES if whole.aligned else unaligned)))
    each = share(whole.vectors, cluster)
    if in_registers or row_bytes <= SHARE_BYTES * cluster:
        return cluster, _threads(each, 5 if in_registers else 4)
    threads = min(SHARE_THREADS, _threads(each, 6))
    return cluster, threads if each <= 10 * threads else _threads(each, 8)


def _few_large_shares(whole: ElementwiseTileConfig, largest: int) -> tuple[int, int]:
    """(cluster, threads of a CTA) for two: the more CTAs wait for one another, the longer."""
    cluster = min(_power(ceil_div(whole.columns * whole.itemsize, LARGE_SHARE_BYTES)), largest)
    each = share(whole.vectors, cluster)
    return cluster, _threads(each, 8 if cluster >= WIDE_CLUSTER and whole.itemsize == 4 else 16)


def _threads(vectors: int, each: int) -> int:
    """Threads for so many vectors, `each` a thread: a power of two within a warp, whole warps beyond."""
    threads = ceil_div(vectors, each)
    if threads <= WARP:
        return _power(threads)
    return min(MAX_THREADS, ceil_div(threads, WARP) * WARP)


def _power(n: int) -> int:
    """The least power of two from n on."""
    return 1 << (n - 1).bit_length()
