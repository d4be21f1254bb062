"""The layout for rows of a given length: a pure function of columns, element size and architecture, without cutlass."""

from __future__ import annotations

from dataclasses import replace

from .config import (
    MAX_CLUSTER,
    MAX_THREADS,
    SAFE_CLUSTER,
    SHARED_BYTES,
    SHORT_ROW_BYTES,
    VECTOR_BYTES,
    WARP,
    RowTileConfig,
    ceil_div,
    power,
)

# Measured on an H200 and an H100 (docs/notes/performance.md). Rows of up to SINGLE_BYTES stay in one CTA and in registers, with
# two vectors per thread: 64 KiB are then in flight per multiprocessor. Longer rows lie in shared memory, which leaves registers
# for more CTAs, and are split over a cluster into shares of SHARE_BYTES with four vectors per thread. Beyond the largest
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
# With a weight and a bias (LayerNorm), which come from L2 for every row: one warp per row up to four vectors per thread; then
# fewer threads with more vectors. A warp of 16-bit rows that more than a third of its threads would have no second vector of
# is halved: their work that no vector needs costs 6 %.
COLUMN_TERMS = 2
FEW_THREADS = 256
MIN_LOOSE = 16
LAYER_SINGLE_BYTES, LAYER_SHARE_BYTES, LARGE_LAYER_BYTES = 32 * 1024, 30 * 1024, 56 * 1024
LAYER_VECTORS, LAYER_THREADS, MIN_THREADS_VECTORS = 11, 288, {2: 16, 4: 13}  # of two CTAs of 320 threads there is no room
# The same with a residual, or for rows that start anywhere.
WIDE_CLUSTER, WIDE_THREADS = 8, 512
LARGE_SHARE_BYTES = 32 * 1024
# Norms of rows that start anywhere are faster in registers. Their threads are multiples of BLOCK: for others the compiler takes up
# to 26 registers more, and CTAs find no room.
BLOCK, REGISTER_VECTORS = 128, 6
UNALIGNED_SINGLE_BYTES, UNALIGNED_LAYER_BYTES = 4 * 1024, 2 * 1024  # of norms
# LayerNorm, by length: most BLOCKs of vectors of a row, its CTAs, BLOCKs of threads of each, CTAs of a multiprocessor (0: any).
LAYER_BLOCKS = {
    2: ((7.8, 1, 1, 0), (16, 1, 2, 0), (19, 1, 3, 3), (32, 1, 4, 2)),
    4: ((5, 1, 1, 0), (10, 1, 2, 0), (15, 1, 3, 0), (28, 1, 4, 0), (42, 2, 3, 3)),
}
# Few rows do not fill the GPU, so time is latency. More CTAs per row and registers: 16 rows of 256 KiB take 4.9 us, not 7.2.
# FEW_VECTORS: of 16 bits, of a thread.
FEW_SHARE_BYTES, FEW_VECTORS = 8 * 1024, 7
GROUPS_OF_16, MOST_IN_GROUP = 7, 16  # groups of multiprocessors with room for a cluster of sixteen; clusters in each, if spread
CTA_BYTES = 1024  # of shared memory, that each CTA costs besides
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
    whole, largest = RowTileConfig(columns, itemsize, aligned=aligned), MAX_CLUSTER[architecture]
    if columns * itemsize <= _single_bytes(aligned, terms, tiles):
        return _single(whole, terms, tiles)
    if terms and tiles == 1 and (config := _of_norm(whole, terms, largest)):
        return config
    whole = replace(whole, keep="shared")
    if terms >= COLUMN_TERMS:
        config = (_layer_shares if aligned and tiles == 1 else _few_large_shares)(whole, largest)
    else:
        config = _beside(_shares(whole, largest), tiles)
    if config.shared_bytes(tiles) > SHARED_BYTES[architecture] or config.vectors_per_thread - config.beside > MAX_VECTORS:
        raise ValueError(f"a row of {columns} elements of {itemsize} bytes is more than a cluster keeps")
    return config


def _single_bytes(aligned: bool, terms: int, tiles: int) -> int:
    """The longest row that one CTA has in registers, as `_single` lays it out."""
    if aligned:
        return LAYER_SINGLE_BYTES if terms >= COLUMN_TERMS and tiles == 1 else SINGLE_BYTES
    if terms:
        return UNALIGNED_LAYER_BYTES if terms >= COLUMN_TERMS and tiles == 1 else UNALIGNED_SINGLE_BYTES
    return SINGLE_BYTES if tiles == 1 else SHORT_ROW_BYTES


def choose_few(columns: int, itemsize: int, architecture: str = "sm_90", aligned: bool = True) -> RowTileConfig:
    """The layout for a few rows, of up to 1 MiB each, which do not fill the GPU."""
    whole = RowTileConfig(columns, itemsize, aligned=aligned)
    cluster = min(MAX_CLUSTER[architecture], power(ceil_div(columns * itemsize, FEW_SHARE_BYTES)))
    each = whole.share(cluster)
    return replace(_clusters(whole, cluster, few_threads(each, itemsize)), spread=cluster > SAFE_CLUSTER)


def few_threads(vectors: int, itemsize: int) -> int:
    """How many threads take a CTA's vectors of a row. Registers suffice for two CTAs of up to 384 threads."""
    most = FEW_VECTORS * itemsize // 2
    return 192 if vectors <= 3 * 192 else 256 if vectors <= 8 * 256 else 384 if vectors <= most * 384 else 512


def spread_bytes(clusters):
    """The shared memory, at most 227 KiB, of CTAs of which a multiprocessor then takes as many as clusters fall to a group.

    Left alone, the GPU puts some clusters side by side while other groups are idle: nine rows of 140 KiB take a third longer.
    """
    return (SHARED_BYTES["sm_90"] // CTA_BYTES + 1) // ((clusters + GROUPS_OF_16 - 1) // GROUPS_OF_16) * CTA_BYTES - CTA_BYTES


def choose_apart(columns: int, itemsize: int, aligned: bool = True) -> RowTileConfig:
    """The layout for rows of any length that nothing is summed over: CTAs of APART_THREADS, APART_VECTORS per thread."""
    whole, each = RowTileConfig(columns, itemsize, aligned=aligned, apart=True), APART_THREADS * APART_VECTORS
    if whole.vectors <= each:
        return _single(replace(whole, apart=False), 0, 1)
    return _clusters(whole, ceil_div(whole.vectors, each), APART_THREADS)


def _single(whole: RowTileConfig, terms: int, tiles: int) -> RowTileConfig:
    """One CTA per row, or several rows per CTA, in registers."""
    each = max(_threads(whole.vectors, 2), min(2, whole.vectors))
    if terms >= COLUMN_TERMS:
        each = _layer_threads(whole, each) if tiles == 1 else min(each, FEW_THREADS)
    return _rows(whole, each)


def _layer_threads(whole: RowTileConfig, each: int) -> int:
    """Threads of a row of LayerNorm, where two vectors per thread would take `each`."""
    if each <= WARP:
        is_loose = whole.itemsize == 2 and each >= MIN_LOOSE and 4 * whole.vectors <= 5 * each
        return each // 2 if is_loose else each
    if whole.vectors <= 6 * WARP:
        return WARP if whole.vectors <= 4 * WARP else 2 * WARP
    return max(MIN_THREADS, _threads(whole.vectors, 4))


def _rows(whole: RowTileConfig, each: int) -> RowTileConfig:
    """In CTAs of enough rows of `each` threads."""
    least = SHORT_ROWS_THREADS if whole.vectors * VECTOR_BYTES <= SHORT_BYTES else MIN_THREADS
    threads = each if each >= least else ceil_div(least, each) * each
    return replace(whole, threads=threads, threads_per_row=each)


def _of_norm(whole: RowTileConfig, terms: int, largest: int) -> RowTileConfig | None:
    """A norm in registers; None where shared memory is better."""
    if terms >= COLUMN_TERMS:
        return None if whole.aligned else _layer_anywhere(whole)
    return (_norm_shares if whole.aligned else _norm_anywhere)(whole, largest)


def _norm_anywhere(whole: RowTileConfig, largest: int) -> RowTileConfig | None:
    """RMSNorm: three vectors per thread up to 18 KiB, then nearly full threads of shares of which two CTAs have room."""
    narrow = whole.itemsize == 2
    if whole.vectors <= 9 * BLOCK:
        return _rows(whole, _threads(whole.vectors, 3))
    cluster = 1 if whole.vectors <= 20 * BLOCK else power(ceil_div(whole.vectors, 18 * BLOCK))
    if cluster > SAFE_CLUSTER:
        config = replace(_clusters(whole, largest, 2 * BLOCK), resident=4)
        return None if narrow or config.vectors_per_thread > REGISTER_VECTORS else config
    each = whole.share(cluster)
    if narrow and each <= 10 * BLOCK:
        return replace(_clusters(whole, cluster, 2 * BLOCK), resident=5 if cluster > 1 else 0)
    if each <= 12 * BLOCK:
        return _clusters(whole, cluster, (3 if narrow else 2) * BLOCK)
    if narrow and each <= 14 * BLOCK:
        return replace(_clusters(whole, cluster, 2 * BLOCK), resident=3)
    if 16 * BLOCK < each <= 18 * BLOCK:
        return replace(_clusters(whole, cluster, 3 * BLOCK), resident=2)
    if not narrow and cluster > 2 and each <= 15 * BLOCK:
        return _clusters(whole, cluster // 2, 5 * BLOCK)
    return _clusters(whole, cluster, 4 * BLOCK)


def _norm_shares(whole: RowTileConfig, largest: int) -> RowTileConfig | None:
    """RMSNorm of 56 KiB to 0.4 MiB: four to seven vectors per thread, of 16 bits four or six: five spill, seven are slow."""
    config = _clusters(whole, power(ceil_div(whole.vectors, 14 * BLOCK)), 2 * BLOCK)
    resident = {2: {4: 4, 6: 3}, 4: {4: 4, 5: 4, 6: 3, 7: 2}}[whole.itemsize].get(config.vectors_per_thread)
    return replace(config, resident=resident) if resident and 2 < config.cluster <= largest else None


def _layer_anywhere(whole: RowTileConfig) -> RowTileConfig | None:
    """One row per CTA, or two for one of float32, for pieces of weights: with more CTAs these cost 5 to 20 %."""
    narrow, blocks = whole.itemsize == 2, whole.vectors / BLOCK
    if narrow and whole.vectors <= 7 * WARP:
        return _clusters(whole, 1, WARP)
    if whole.vectors <= (7 if narrow else 4) * 2 * WARP:
        return _clusters(whole, 1, 2 * WARP)
    for most, cluster, wide, resident in LAYER_BLOCKS[whole.itemsize]:
        if blocks <= most:
            return replace(_clusters(whole, cluster, wide * BLOCK), resident=resident)
    return None


def _shares(whole: RowTileConfig, largest: int) -> RowTileConfig:
    """One row per cluster."""
    row_bytes = whole.columns * whole.itemsize
    cluster = min(largest, power(ceil_div(row_bytes, SHARE_BYTES)))
    each = whole.share(cluster)
    if row_bytes <= SHARE_BYTES * cluster:
        return _clusters(whole, cluster, _threads(each, 4))
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


def _layer_shares(whole: RowTileConfig, largest: int) -> RowTileConfig:
    """Few threads of many vectors."""
    row_bytes = whole.columns * whole.itemsize
    cluster = min(SAFE_CLUSTER, power(ceil_div(row_bytes, LAYER_SHARE_BYTES)))
    if row_bytes > cluster * LARGE_LAYER_BYTES:
        cluster = largest
    each = whole.share(cluster)
    if each <= MIN_THREADS_VECTORS[whole.itemsize] * MIN_THREADS:
        return _clusters(whole, cluster, MIN_THREADS)
    return _clusters(whole, cluster, max(min(LAYER_THREADS, _threads(each, LAYER_VECTORS)), _threads(each, MAX_VECTORS)))


def _few_large_shares(whole: RowTileConfig, largest: int) -> RowTileConfig:
    cluster = min(power(ceil_div(whole.columns * whole.itemsize, LARGE_SHARE_BYTES)), largest)
    each = whole.share(cluster)
    is_wide = cluster >= WIDE_CLUSTER and whole.itemsize == 4 and each <= 8 * WIDE_THREADS
    return _clusters(whole, cluster, _threads(each, 8 if is_wide else 16))


def _clusters(whole: RowTileConfig, cluster: int, threads: int) -> RowTileConfig:
    return replace(whole, cluster=cluster, threads=threads, threads_per_row=threads)


def _threads(vectors: int, each: int) -> int:
    """Threads for `vectors` vectors, `each` per thread: a power of two within a warp, whole warps beyond."""
    threads = ceil_div(vectors, each)
    if threads <= WARP:
        return power(threads)
    return min(MAX_THREADS, ceil_div(threads, WARP) * WARP)
