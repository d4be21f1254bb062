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

# Measured on an H200 (docs/notes/performance.md). Rows of up to SINGLE_BYTES stay in one CTA and in registers, with two vectors
# a thread: what is in flight is then 64 KiB a multiprocessor. Longer rows lie in shared memory, which leaves registers
# for more CTAs, and are split over a cluster into shares of SHARE_BYTES with four vectors a thread. Past the largest
# cluster the shares grow.
SINGLE_BYTES = 16 * 1024
SHARE_BYTES = 16 * 1024
MIN_THREADS = 128
SHARE_THREADS = 448
FULL_THREADS = 384  # five CTAs of them fill a multiprocessor; 416, of which four fit, cost 2 % at float32 2048x151936
FULL_VECTORS = 7
MAX_VECTORS = 16
SHORT_BYTES = 512  # of a row: more of them a CTA
SHORT_ROWS_THREADS = 256
# Beside a weight and a bias (LayerNorm), which come from L2 for every row: one warp a row as far as four vectors a thread
# go; then fewer threads with more vectors; long rows two a cluster, so that weight and bias come once for them.
COLUMN_TERMS = 2
FEW_THREADS = 256
BESIDE_CLUSTER = 8
BESIDE_BYTES = 512 * 1024  # of a row, beyond which eight CTAs would have more than 64 KiB of each
TWO_ROWS_BYTES = 108 * 1024  # of a share, up to which two fit
# The same where rows are not alone (a residual) or start anywhere.
WIDE_CLUSTER = 8
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
    columns: int, itemsize: int, architecture: str = "sm_90", aligned: bool = True, tiles: int = 1, terms: int = 0
) -> ElementwiseTileConfig:
    """The layout for rows of `columns` elements of `itemsize` bytes.

    tiles  matrices that are kept until their last use
    terms  vectors of one value a column beside them: a weight, a bias
    Raises ValueError, with a reason in one line, where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}; there is one for {', '.join(MAX_CLUSTER)}")
    whole = ElementwiseTileConfig(columns, itemsize, aligned=aligned)
    row_bytes = whole.vectors * VECTOR_BYTES
    if row_bytes <= (SINGLE_BYTES if aligned else UNALIGNED_SINGLE_BYTES):
        return _single(whole, terms, tiles)
    in_registers = (
        not aligned and itemsize == 4 and tiles == 1 and terms < COLUMN_TERMS and row_bytes <= UNALIGNED_REGISTER_BYTES
    )
    whole = replace(whole, keep="registers" if in_registers else "shared")
    layout = _shares
    if terms >= COLUMN_TERMS:
        layout = _beside if aligned and tiles == 1 else _few_large_shares
    config = layout(whole, MAX_CLUSTER[architecture])
    if config.shared_bytes(tiles) > SHARED_BYTES[architecture] or config.vectors_per_thread > MAX_VECTORS:
        raise ValueError(f"a row of {columns} elements of {itemsize} bytes is more than a cluster keeps")
    return config


def choose_few(columns: int, itemsize: int, architecture: str = "sm_90") -> ElementwiseTileConfig:
    """The layout for a few aligned rows, of 64 KiB to 1 MiB each, which do not fill the GPU."""
    vectors = ceil_div(columns * itemsize, VECTOR_BYTES)
    cluster = min(MAX_CLUSTER[architecture], _power(ceil_div(columns * itemsize, FEW_SHARE_BYTES)))
    each = share(vectors, cluster)
    threads = 128 if each <= 4 * 128 else 256 if each <= 8 * 256 else 512
    return ElementwiseTileConfig(columns, itemsize, cluster, threads, threads, "registers")


def _single(whole: ElementwiseTileConfig, terms: int, tiles: int) -> ElementwiseTileConfig:
    """One CTA a row, or several rows a CTA, in registers."""
    each = _threads(whole.vectors, 2)
    if terms >= COLUMN_TERMS:
        each = min(each, FEW_THREADS)
        if tiles == 1 and each > WARP:
            each = WARP if whole.vectors <= 4 * WARP else max(min(each, MIN_THREADS), _threads(whole.vectors, 4))
    least = SHORT_ROWS_THREADS if whole.vectors * VECTOR_BYTES <= SHORT_BYTES else MIN_THREADS
    threads = each if each >= least else ceil_div(least, each) * each
    return replace(whole, threads=threads, threads_per_row=each)


def _shares(whole: ElementwiseTileConfig, largest: int) -> ElementwiseTileConfig:
    row_bytes = whole.columns * whole.itemsize
    in_registers = whole.keep == "registers"
    unaligned = UNALIGNED_REGISTER_SHARE_BYTES if in_registers else UNALIGNED_SHARE_BYTES
    cluster = min(largest, _power(ceil_div(row_bytes, SHARE_BYTES if whole.aligned else unaligned)))
    each = share(whole.vectors, cluster)
    if in_registers or row_bytes <= SHARE_BYTES * cluster:
        return _clusters(whole, cluster, _threads(each, 5 if in_registers else 4))
    threads = min(SHARE_THREADS, _threads(each, 6))
    if each <= FULL_VECTORS * FULL_THREADS:
        threads = min(threads, FULL_THREADS)
    return _clusters(whole, cluster, threads if each <= 10 * threads else _threads(each, 8))


def _beside(whole: ElementwiseTileConfig, largest: int) -> ElementwiseTileConfig:
    """Two rows a cluster."""
    row_bytes = whole.columns * whole.itemsize
    most = BESIDE_CLUSTER if row_bytes <= BESIDE_BYTES else largest
    cluster = min(most, _power(ceil_div(row_bytes, SHARE_BYTES)))
    each = share(whole.vectors, cluster)
    if each * VECTOR_BYTES > TWO_ROWS_BYTES:
        return _few_large_shares(whole, largest)
    threads = max(min(FEW_THREADS, _threads(each, 4)), _threads(each, MAX_VECTORS))
    return replace(_clusters(whole, cluster, threads), rows_per_thread=2)


def _few_large_shares(whole: ElementwiseTileConfig, largest: int) -> ElementwiseTileConfig:
    cluster = min(_power(ceil_div(whole.columns * whole.itemsize, LARGE_SHARE_BYTES)), largest)
    each = share(whole.vectors, cluster)
    return _clusters(whole, cluster, _threads(each, 8 if cluster >= WIDE_CLUSTER and whole.itemsize == 4 else 16))


def _clusters(whole: ElementwiseTileConfig, cluster: int, threads: int) -> ElementwiseTileConfig:
    return replace(whole, cluster=cluster, threads=threads, threads_per_row=threads)


def _threads(vectors: int, each: int) -> int:
    """Threads for so many vectors, `each` a thread: a power of two within a warp, whole warps beyond."""
    threads = ceil_div(vectors, each)
    if threads <= WARP:
        return _power(threads)
    return min(MAX_THREADS, ceil_div(threads, WARP) * WARP)


def _power(n: int) -> int:
    """The least power of two from n on."""
    return 1 << (n - 1).bit_length()
