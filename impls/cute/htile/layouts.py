"""The layout for rows of a given length: a pure function of columns, element size and architecture, without cutlass."""

from __future__ import annotations

from dataclasses import replace

from .config import MAX_CLUSTER, MAX_THREADS, SHARED_BYTES, VECTOR_BYTES, WARP, RowTileConfig, ceil_div, share

# Measured on an H200 (docs/notes/performance.md). Rows of up to SINGLE_BYTES stay in one CTA and in registers, with two vectors
# per thread: 64 KiB are then in flight per multiprocessor. Longer rows lie in shared memory, which leaves registers for
# more CTAs, and are split over a cluster into shares of SHARE_BYTES with four vectors per thread. Beyond the largest
# cluster the shares grow.
SINGLE_BYTES = 16 * 1024
SHARE_BYTES = 16 * 1024
MIN_THREADS = 128
SHARE_THREADS = 448
FULL_THREADS = 384  # five CTAs of these fill a multiprocessor; 416, of which four fit, cost 2 % at float32 2048x151936
FULL_VECTORS = 7
# The most vectors per thread with SHARE_THREADS. In softmax these threads have 32 to 40 registers, so that two CTAs fit on a
# multiprocessor if their shares do; more threads of eight vectors have up to 68, and one CTA fits.
LONG_VECTORS = 15
BESIDE_VECTORS = 6  # that a thread may keep in registers besides: two CTAs then have room for 150 KiB each
MAX_VECTORS = 16
SHORT_BYTES = 512  # of a row: a CTA takes more of these
SHORT_ROWS_THREADS = 256
# With a weight and a bias (LayerNorm), which come from L2 for every row: one warp per row up to four vectors per thread;
# then fewer threads with more vectors; long rows two per cluster, so that weight and bias are read once for both.
COLUMN_TERMS = 2
FEW_THREADS = 256
TWO_ROW_CLUSTER = 8
TWO_ROW_BYTES = 512 * 1024  # of a row, beyond which eight CTAs would have more than 64 KiB of each
# The same with a residual, for rows that start anywhere, or of which two do not fit.
WIDE_CLUSTER, WIDE_THREADS = 8, 512
LARGE_SHARE_BYTES = 32 * 1024
# Unaligned rows of two matrices, or with weights, stay in registers only up to this size.
UNALIGNED_SINGLE_BYTES = 4 * 1024
UNALIGNED_SHARE_BYTES = 32 * 1024
SHORT_LAYER_BYTES = 20 * 1024  # of a float32 row up to which LayerNorm's threads have as few vectors as those of RMSNorm
# float32 rows are trimmed at no cost, and registers gain 3 to 4 % over shared memory.
UNALIGNED_REGISTER_BYTES = 256 * 1024
UNALIGNED_REGISTER_SHARE_BYTES = 28 * 1024
# Few rows do not fill the GPU, so time is latency. More CTAs per row and registers: 16 rows of 256 KiB take 4.9 us, and
# 7.2 us in the layout for many rows; from 64 rows on this loses.
FEW_SHARE_BYTES = 8 * 1024
APART_THREADS, APART_VECTORS = 256, 2


def choose(
    columns: int, itemsize: int, architecture: str = "sm_90", aligned: bool = True, tiles: int = 1, terms: int = 0
) -> RowTileConfig:
    """The layout for rows of `columns` elements of `itemsize` bytes.

    tiles  matrices that are kept until their last use
    terms  vectors of one value per column: a weight, a bias
    Raises ValueError, with a reason in one line, where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}; there is one for {', '.join(MAX_CLUSTER)}")
    whole = RowTileConfig(columns, itemsize, aligned=aligned)
    row_bytes = whole.vectors * VECTOR_BYTES
    if row_bytes <= (SINGLE_BYTES if aligned or (tiles == 1 and not terms) else UNALIGNED_SINGLE_BYTES):
        return _single(whole, terms, tiles)
    in_registers = not aligned and itemsize == 4 and tiles == 1 and terms < COLUMN_TERMS and row_bytes <= UNALIGNED_REGISTER_BYTES
    whole = replace(whole, keep="registers" if in_registers else "shared")
    if terms >= COLUMN_TERMS and (aligned or itemsize == 2 or row_bytes > SHORT_LAYER_BYTES):
        layout = _two_rows if aligned and tiles == 1 else _few_large_shares
        config = layout(whole, MAX_CLUSTER[architecture])
    else:
        config = _beside(_shares(whole, MAX_CLUSTER[architecture]), tiles)
    if config.rows_per_thread > 1 and config.shared_bytes(tiles) > SHARED_BYTES[architecture]:
        config = _few_large_shares(whole, MAX_CLUSTER[architecture])
    if config.shared_bytes(tiles) > SHARED_BYTES[architecture] or config.vectors_per_thread - config.beside > MAX_VECTORS:
        raise ValueError(f"a row of {columns} elements of {itemsize} bytes is more than a cluster keeps")
    return config


def choose_few(columns: int, itemsize: int, architecture: str = "sm_90", aligned: bool = True) -> RowTileConfig:
    """The layout for a few rows, of up to 1 MiB each, which do not fill the GPU."""
    whole = RowTileConfig(columns, itemsize, aligned=aligned)
    cluster = min(MAX_CLUSTER[architecture], _power(ceil_div(columns * itemsize, FEW_SHARE_BYTES)))
    each = share(whole.vectors, cluster)
    return _clusters(whole, cluster, 128 if each <= 4 * 128 else 256 if each <= 8 * 256 else 512)


def choose_apart(columns: int, itemsize: int, aligned: bool = True) -> RowTileConfig:
    """The layout for rows of any length that nothing is summed over: CTAs of APART_THREADS, APART_VECTORS per thread."""
    whole, each = RowTileConfig(columns, itemsize, aligned=aligned, apart=True), APART_THREADS * APART_VECTORS
    if whole.vectors <= each:
        return _single(replace(whole, apart=False), 0, 1)
    return _clusters(whole, ceil_div(whole.vectors, each), APART_THREADS)


def _single(whole: RowTileConfig, terms: int, tiles: int) -> RowTileConfig:
    """One CTA per row, or several rows per CTA, in registers."""
    each = _threads(whole.vectors, 2)
    if terms >= COLUMN_TERMS:
        each = min(each, FEW_THREADS)
        if tiles == 1 and each > WARP:
            each = WARP if whole.vectors <= 4 * WARP else max(min(each, MIN_THREADS), _threads(whole.vectors, 4))
    least = SHORT_ROWS_THREADS if whole.vectors * VECTOR_BYTES <= SHORT_BYTES else MIN_THREADS
    threads = each if each >= least else ceil_div(least, each) * each
    return replace(whole, threads=threads, threads_per_row=each)


def _shares(whole: RowTileConfig, largest: int) -> RowTileConfig:
    """One row per cluster."""
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
    return _clusters(whole, cluster, threads if each <= LONG_VECTORS * threads else _threads(each, 8))


def _beside(config: RowTileConfig, tiles: int) -> RowTileConfig:
    """With vectors in registers, if two CTAs fit on a multiprocessor then."""
    beside = ceil_div(config.cta_vectors, SHARE_THREADS) - LONG_VECTORS // tiles
    if not 0 < beside <= BESIDE_VECTORS // tiles:
        return config
    return replace(_clusters(config, config.cluster, SHARE_THREADS), beside=beside)


def _two_rows(whole: RowTileConfig, largest: int) -> RowTileConfig:
    """Two rows per cluster."""
    row_bytes = whole.columns * whole.itemsize
    most = TWO_ROW_CLUSTER if row_bytes <= TWO_ROW_BYTES else largest
    cluster = min(most, _power(ceil_div(row_bytes, SHARE_BYTES)))
    each = share(whole.vectors, cluster)
    threads = max(min(FEW_THREADS, _threads(each, 4)), _threads(each, MAX_VECTORS))
    return replace(_clusters(whole, cluster, threads), rows_per_thread=2)


def _few_large_shares(whole: RowTileConfig, largest: int) -> RowTileConfig:
    cluster = min(_power(ceil_div(whole.columns * whole.itemsize, LARGE_SHARE_BYTES)), largest)
    each = share(whole.vectors, cluster)
    is_wide = cluster >= WIDE_CLUSTER and whole.itemsize == 4 and each <= 8 * WIDE_THREADS
    return _clusters(whole, cluster, _threads(each, 8 if is_wide else 16))


def _clusters(whole: RowTileConfig, cluster: int, threads: int) -> RowTileConfig:
    return replace(whole, cluster=cluster, threads=threads, threads_per_row=threads)


def _threads(vectors: int, each: int) -> int:
    """Threads for `vectors` vectors, `each` per thread: a power of two within a warp, whole warps beyond."""
    threads = ceil_div(vectors, each)
    if threads <= WARP:
        return _power(threads)
    return min(MAX_THREADS, ceil_div(threads, WARP) * WARP)


def _power(n: int) -> int:
    """The least power of two that is n or more."""
    return 1 << (n - 1).bit_length()
