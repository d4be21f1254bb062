"""The layout of more rows of softmax than `choose_few` is for, and of fewer than fill the GPU. Pure."""

from __future__ import annotations

from dataclasses import replace

from .config import MAX_CLUSTER, SAFE_CLUSTER, WARP, RowTileConfig, ceil_div, power
from .layouts import KIB, MIN_THREADS, SINGLE_BYTES
from .times import ctas

LEAST_SHARE_BYTES, MOST_SHARE_BYTES = 7 * KIB // 2, 16 * KIB
MOST_CTAS = 7  # for each multiprocessor, of shares that are not the largest
CLUSTERED = 10 / 11  # of the multiprocessors; the others are too few in their group for one more cluster
VECTORS = 2, 3, 4  # of a thread: the fewest with which all rows have room at a time
MOST_TURNS = 1.6  # with more, shared memory is faster, which has room for more rows at a time


def choose_some(rows: int, columns: int, itemsize: int, processors: int, aligned: bool = True) -> RowTileConfig | None:
    """In registers; None for long rows, for many, and for those of one CTA."""
    row_bytes, whole = columns * itemsize, RowTileConfig(columns, itemsize, aligned=aligned, quick=True)
    most = max(1, min(row_bytes // LEAST_SHARE_BYTES, MOST_CTAS * processors // rows, SAFE_CLUSTER))
    cluster = max(power(ceil_div(row_bytes, MOST_SHARE_BYTES)), 1 << most.bit_length() - 1)
    if row_bytes <= SINGLE_BYTES or cluster > MAX_CLUSTER["sm_90"]:
        return None
    clusters = int(processors // cluster * CLUSTERED)
    for vectors in VECTORS:
        threads = max(MIN_THREADS, ceil_div(ceil_div(whole.share(cluster), vectors), WARP) * WARP)
        found = replace(whole, cluster=cluster, threads=threads, threads_per_row=threads)
        if rows <= clusters * ctas(found):
            return found
    return found if rows <= MOST_TURNS * clusters * ctas(found) else None
