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

# Measured on an H200 (docs/notes/performance.md). Short rows stay in one CTA. Longer ones lie in shared memory, which leaves
# registers for more CTAs, and are split over a cluster.
SINGLE_BYTES = 16 * 1024  # rows in registers, where nothing below says otherwise
SHORT_BYTES = 512  # of a row: a CTA takes more of these
SHORT_ROWS_THREADS, MIN_THREADS, ALONE_BYTES = 256, 128, 2 * 1024
# By kind and bytes of an element, rows in one CTA: up to which bytes, vectors of a thread, where they are.
KIB = 1024
SINGLE = {
    ("softmax", 2): ((10 * KIB, 2, "registers"), (25 * KIB, 4, "registers")),
    ("gradient anywhere", 2): ((5 * KIB // 2, 5, "registers"), (4 * KIB, 4, "registers"), (12 * KIB, 3, "shared")),
    ("norm", 2): ((16 * KIB, 4, "registers"), (46 * KIB, 8, "shared")),
    ("norm", 4): ((16 * KIB, 2, "registers"), (46 * KIB, 6, "registers")),
    ("norm anywhere", 2): ((16 * KIB, 4, "registers"), (24 * KIB, 6, "registers"), (46 * KIB, 6, "shared")),
    ("norm anywhere", 4): ((18 * KIB, 3, "registers"), (46 * KIB, 6, "registers")),
}
# Shares of a row: of SHARE_BYTES with four vectors per thread, and beyond the largest cluster more; of one matrix, where these
# would be less than FULL_SHARE_BYTES or more, up to WIDE_SHARE_BYTES with WIDE_VECTORS. With SHARE_THREADS threads have 32 to 40
# registers, and two CTAs fit on a multiprocessor if their shares do; more threads of eight vectors have up to 68, and one CTA fits.
WIDE_SHARE_BYTES, WIDE_VECTORS, FULL_SHARE_BYTES = 40 * 1024, 11, {2: 14 * 1024, 4: 23 * 512}
SHARE_BYTES = 16 * 1024
SHARE_THREADS = 448
FULL_THREADS = 384  # five CTAs of these fill a multiprocessor; 416, of which four fit, cost 2 % at float32 2048x151936
FULL_VECTORS = 7
LONG_VECTORS = 15  # the most per thread with SHARE_THREADS
BESIDE_VECTORS = 6  # that a thread may keep in registers besides: two CTAs then have room for 150 KiB each
MAX_VECTORS = 16
# With a weight and a bias (LayerNorm), which come from L2 for every row: one warp per row up to four vectors per thread; then
# fewer threads with more vectors.
COLUMN_TERMS = 2
FEW_THREADS = 256
# By bytes of an element: from which on a thread has six vectors, and the longest row in one CTA; from 46 KiB on a thread has eight.
LAYER_LONG_BYTES, LAYER_SINGLE_BYTES = {2: 16 * KIB, 4: 32 * KIB}, {2: 64 * KIB, 4: 46 * KIB}
LAYER_SHARE_BYTES, LARGE_LAYER_BYTES = 30 * KIB, 56 * KIB
LAYER_VECTORS, LAYER_THREADS, MIN_THREADS_VECTORS = 11, 288, {2: 16, 4: 13}  # of two CTAs of 320 threads there is no room
# The same with a residual, or for rows that start anywhere and are longer than ANYWHERE_BYTES.
WIDE_CLUSTER, WIDE_THREADS = 8, 512
LARGE_SHARE_BYTES = 32 * 1024
ANYWHERE_BYTES, UNALIGNED_SINGLE_BYTES, UNALIGNED_LAYER_BYTES = 60 * 1024, 4 * 1024, 2 * 1024  # of norms
WARP_VECTORS, HELD_VECTORS = 8, {2: 8, 4: 6}  # of a thread: of a row's only warp, and of several
# Warps of a multiprocessor that limit LayerNorm's registers. Where rows start anywhere: the first of ANYWHERE_WARPS that whole
# CTAs, of ANYWHERE_CTAS warps, fill with LEAST_WARPS or more.
RESIDENT_WARPS, ANYWHERE_WARPS, LEAST_WARPS, ANYWHERE_CTAS = 28, (24, 28, 32), 21, (2, 12)
# Few rows do not fill the GPU, so time is latency: a row has sixteen CTAs, and registers hold it. By bytes of an element: up to
# which vectors of a CTA it has how many threads. A thread has one or two vectors, of 16 bits up to 192 KiB a row; then registers
# suffice for two CTAs of up to 384 threads.
FEW_ROWS_THREADS = {
    2: ((256, 128), (384, 192), (512, 256), (768, 384), (2048, 256), (2688, 384)),
    4: ((256, 128), (576, 192), (2048, 256), (5376, 384)),
}
MOST_FEW_THREADS = 512
GROUPS_OF_16, MOST_IN_GROUP = 7, 16  # groups of multiprocessors with room for a cluster of sixteen; clusters in each, if spread
CTA_BYTES = 1024  # of shared memory, that each CTA costs besides
# By whether rows are whole vectors: (threads, most vectors) of rows of 16 bits in which many of twice the threads would be idle.
HALVED = {True: ((4, 10), (8, 20), (64, 153)), False: ((4, 10), (8, 20), (64, 224))}
MASKED_VECTORS, MOST_MASKED_THREADS = (4, 5), 320  # the second with a mask of bytes


def choose(
    columns: int,
    itemsize: int,
    architecture: str = "sm_90",
    aligned: bool = True,
    tiles: int = 1,
    terms: int = 0,
    plain: bool = False,
) -> RowTileConfig:
    """The layout for rows of `columns` elements of `itemsize` bytes.

    tiles  matrices that are kept until their last use
    terms  vectors of one value per column: a weight, a bias
    plain  of many rows of softmax or its gradient, and nothing else
    Raises ValueError, with a reason in one line, where no layout exists.
    """
    if architecture not in MAX_CLUSTER:
        raise ValueError(f"no layout for {architecture}; there is one for {', '.join(MAX_CLUSTER)}")
    whole, largest = RowTileConfig(columns, itemsize, aligned=aligned), MAX_CLUSTER[architecture]
    if config := _single(whole, terms, tiles, plain):
        return config
    whole = replace(whole, keep="shared")
    if terms >= COLUMN_TERMS:
        config = (_layer_shares if aligned and tiles == 1 else _few_large_shares)(whole, largest)
    else:
        config = _beside((_wide_shares if tiles == 1 and (terms or plain) else _shares)(whole, largest), tiles)
    if config.shared_bytes(tiles) > SHARED_BYTES[architecture] or config.vectors_per_thread - config.beside > MAX_VECTORS:
        raise ValueError(f"a row of {columns} elements of {itemsize} bytes is more than a cluster keeps")
    return config


def _single_bytes(itemsize: int, aligned: bool, terms: int, tiles: int) -> int:
    """The longest row that one CTA has in registers, as `_single` lays it out."""
    if aligned:
        return LAYER_SINGLE_BYTES[itemsize] if terms >= COLUMN_TERMS and tiles == 1 else SINGLE_BYTES
    if terms:
        return UNALIGNED_LAYER_BYTES if terms >= COLUMN_TERMS and tiles == 1 else UNALIGNED_SINGLE_BYTES
    return SINGLE_BYTES if tiles == 1 else SHORT_ROW_BYTES["registers"]


def choose_few(columns: int, itemsize: int, architecture: str = "sm_90", aligned: bool = True) -> RowTileConfig:
    """The layout for a few rows, of 16 KiB to 1 MiB each, which do not fill the GPU."""
    whole = RowTileConfig(columns, itemsize, aligned=aligned)
    cluster = MAX_CLUSTER[architecture]
    return replace(_clusters(whole, cluster, few_threads(whole.share(cluster), itemsize)), spread=True, quick=True)


def few_threads(vectors: int, itemsize: int) -> int:
    """How many threads take a CTA's vectors of a row: of FEW_ROWS_THREADS, those that the last turn needs."""
    most = next((threads for most, threads in FEW_ROWS_THREADS[itemsize] if vectors <= most), MOST_FEW_THREADS)
    return ceil_div(ceil_div(vectors, ceil_div(vectors, most)), WARP) * WARP


def spread_bytes(clusters):
    """The shared memory, at most 227 KiB, of CTAs of which a multiprocessor then takes as many as clusters fall to a group.

    Left alone, the GPU puts some clusters side by side while other groups are idle: nine rows of 140 KiB take a third longer.
    """
    return (SHARED_BYTES["sm_90"] // CTA_BYTES + 1) // ((clusters + GROUPS_OF_16 - 1) // GROUPS_OF_16) * CTA_BYTES - CTA_BYTES


def choose_masked(
    columns: int, itemsize: int, mask_size: int, aligned: bool = True, architecture: str = "sm_90"
) -> RowTileConfig | None:
    """The layout for rows under a mask, both in registers; None for short ones and for the longest."""
    whole, vectors = RowTileConfig(columns, itemsize, aligned=aligned), MASKED_VECTORS[mask_size < itemsize]
    if columns * itemsize <= SINGLE_BYTES or architecture not in MAX_CLUSTER:
        return None
    found = (fewest_ctas(whole, each, MOST_MASKED_THREADS, MAX_CLUSTER[architecture]) for each in (vectors, vectors + 1))
    return next(filter(None, found), None)


def fewest_ctas(whole: RowTileConfig, vectors: int, most: int, largest: int) -> RowTileConfig | None:
    """Rows over the fewest CTAs of up to `most` threads of as many vectors; None if a cluster has too few."""
    for cluster in (1 << i for i in range(largest.bit_length())):
        each = whole.share(cluster)
        threads = _threads(each, vectors)
        if threads <= most:
            return _clusters(whole, cluster, threads)
    return None


def _single(whole: RowTileConfig, terms: int, tiles: int, plain: bool = False) -> RowTileConfig | None:
    """One CTA per row, or several rows per CTA; None for longer rows."""
    bytes_, layer = whole.columns * whole.itemsize, terms >= COLUMN_TERMS and tiles == 1
    if layer and not whole.aligned and UNALIGNED_LAYER_BYTES < bytes_ <= ANYWHERE_BYTES:
        return _layer_anywhere(whole)
    is_narrow = whole.itemsize == 2
    few = HALVED[whole.aligned] if is_narrow and terms + tiles == 1 else ()
    halved = next((n for n, most in few if 2 * n < whole.vectors <= most), 0)
    lengths = SINGLE.get((_kind(whole, terms, tiles), whole.itemsize)) if terms or plain else ()
    if lengths and bytes_ > SHORT_BYTES:
        found = next(((each, keep) for most, each, keep in lengths if bytes_ <= most), None)
        if not found:
            return None
        each = halved or _threads(whole.vectors, found[0])
        fits = is_narrow and MIN_THREADS % each == 0
        one_row = is_narrow and not fits and terms > 0 if whole.aligned else terms > 0 or not fits
        return _rows(replace(whole, keep=found[1]), each, one_row)
    if bytes_ > _single_bytes(whole.itemsize, whole.aligned, terms, tiles):
        return None
    each = halved or max(_threads(whole.vectors, 2), min(2, whole.vectors))
    if terms >= COLUMN_TERMS:
        each = _layer_threads(whole, each) if tiles == 1 else min(each, FEW_THREADS)
    config = _rows(whole, each, (layer and is_narrow) or not whole.aligned)
    return replace(config, resident=_resident(config)) if layer else config


def _kind(whole: RowTileConfig, terms: int, tiles: int) -> str:
    """That in SINGLE; "" for LayerNorm, and for norms with a residual."""
    kind = {(0, 1): "softmax", (0, 2): "gradient", (1, 1): "norm"}.get((terms, tiles), "")
    return kind if whole.aligned or kind in ("", "softmax") else f"{kind} anywhere"


def _layer_threads(whole: RowTileConfig, each: int) -> int:
    """Threads of a row of LayerNorm, where two vectors per thread would take `each`."""
    narrow, vectors, bytes_ = whole.itemsize == 2, whole.vectors, whole.columns * whole.itemsize
    if bytes_ > LAYER_LONG_BYTES[whole.itemsize]:
        return _threads(vectors, 6 if bytes_ <= LAYER_SINGLE_BYTES[4] else 8)
    if narrow and 2 < vectors <= 2 * WARP:  # as few that no vector needs as can be
        some = [each for each in (2, 4, 8, 16, 32) if 2 <= ceil_div(vectors, each) <= 4]
        return min(some, key=lambda each: (each * ceil_div(vectors, each), -each))
    if each <= WARP:
        return each
    if vectors <= 6 * WARP:
        return WARP if vectors <= 4 * WARP else 2 * WARP
    return max(2 * WARP, _threads(vectors, 5)) if narrow else max(MIN_THREADS, _threads(vectors, 4))


def _rows(whole: RowTileConfig, each: int, one_row: bool) -> RowTileConfig:
    """In CTAs of enough rows: of one, if it is no short one, has several warps, and `one_row` is asked for."""
    bytes_ = whole.vectors * VECTOR_BYTES
    least = SHORT_ROWS_THREADS if bytes_ <= SHORT_BYTES else MIN_THREADS
    alone = each >= least or (each > WARP and one_row and bytes_ > ALONE_BYTES)
    return replace(whole, threads=each if alone else ceil_div(least, each) * each, threads_per_row=each)


def _layer_anywhere(whole: RowTileConfig) -> RowTileConfig:
    """One row per CTA, for pieces of weights, with few threads."""
    each = max(2 * WARP, _threads(whole.vectors, HELD_VECTORS[whole.itemsize]))
    if whole.vectors <= WARP_VECTORS * WARP and whole.itemsize == 2:
        each = WARP
    warps, (least, most) = each // WARP, ANYWHERE_CTAS
    found = (n // warps for n in ANYWHERE_WARPS if n // warps * warps >= LEAST_WARPS)
    resident = next(found) if whole.itemsize == 2 and least <= warps <= most else 0
    return replace(_clusters(whole, 1, each), resident=resident)


def _resident(config: RowTileConfig) -> int:
    """CTAs of one row of LayerNorm that a multiprocessor has room for, where early weights would take too many registers."""
    is_long = config.itemsize == 2 or config.columns * config.itemsize > LAYER_LONG_BYTES[config.itemsize]
    return max(2, RESIDENT_WARPS * WARP // config.threads) if is_long and config.aligned and config.rows == 1 else 0


def _wide_shares(whole: RowTileConfig, largest: int) -> RowTileConfig:
    """One row per cluster of few CTAs of few threads, if more would not have full shares."""
    row_bytes = whole.columns * whole.itemsize
    ctas = power(ceil_div(row_bytes, SHARE_BYTES))
    if ctas <= largest and row_bytes >= ctas * FULL_SHARE_BYTES[whole.itemsize]:
        return _shares(whole, largest)
    cluster = min(largest, power(ceil_div(row_bytes, WIDE_SHARE_BYTES)))
    each = whole.share(cluster)
    threads = SHARE_THREADS if cluster == 1 else min(SHARE_THREADS, _threads(each, WIDE_VECTORS))
    return _clusters(whole, cluster, threads if each <= LONG_VECTORS * threads else _threads(each, 8))


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
    for half in (WARP // 2, WARP):
        if threads > half and vectors <= 3 * half:
            return half
    if threads <= WARP:
        return power(threads)
    return min(MAX_THREADS, ceil_div(threads, WARP) * WARP)
