"""Which kernel serves what, in which layout, and what to fall back to; pure, without torch and cutlass.

Each function here yields builds in the order in which they are to be tried: the first that the GPU launches is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ._host import Build
from .htile.config import (
    MAX_CLUSTER,
    MAX_THREADS,
    SHARED_BYTES,
    VECTOR_BYTES,
    WARP,
    ElementwiseTileConfig,
    SplitTileConfig,
    ceil_div,
    share,
)
from .htile.layouts import choose, choose_few

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
# A launch may begin while the one before it ends; its kernel waits for that before it touches memory.
OVERLAPPED = (("pdl", True),)
RESIDUAL = 3  # place of the residual among a norm's arguments
LEAST_LONG_SHARE_BYTES = 64 * 1024
# Rows that are split over the whole GPU.
MOST_STAGES = 7
LEAST_STAGES = 3
RING_WARPS = (12, 14)  # that reduce, and as many that write: so many that none has more than RING_VECTORS a thread
RING_VECTORS = 8
SINGLE_THREADS, MOST_SINGLE_VECTORS = 512, 16
TWICE_THREADS = 960
CLUSTER_ROW_BYTES = 2**20
FEW_ROWS = 32
LEAST_FEW_ROW_BYTES = 64 * 1024
# A thread of a row beyond what a cluster keeps takes more vectors, with registers that spill; code grows with them.
MOST_VECTORS_PER_THREAD = 32


@dataclass(frozen=True)
class Gpu:
    """architecture: "sm_90" and the like; processors: multiprocessors, each of which takes a CTA."""

    architecture: str
    processors: int

    @property
    def arch(self) -> str:
        """With the architecture's own instructions."""
        return f"{self.architecture}a"


HOPPER = Gpu("sm_90", 132)


def softmax(columns: int, dtype: str, out_dtype: str, gpu: Gpu, aligned: bool, few: str = "") -> Iterator[Build]:
    """Builds of (x, y), or of (x, y, workspace) where the kernel is the one that splits rows over the whole GPU.

    few  what `few` says of the number of rows
    """
    if gpu.architecture not in MAX_CLUSTER:
        return
    itemsize = ITEM_BYTES[dtype]

    def clusters(config: ElementwiseTileConfig) -> Build:
        return Build("softmax.Softmax", config, (dtype, out_dtype), OVERLAPPED, gpu.arch)

    split = Build(
        "split_softmax.SplitSoftmax",
        split_layout(columns, itemsize, gpu, aligned, is_single=few == "single"),
        (dtype, out_dtype, "int64"),
        OVERLAPPED,
        gpu.arch,
    )
    is_split = few in ("single", "split")
    if is_split:
        yield split
    elif few and aligned:
        yield clusters(choose_few(columns, itemsize, gpu.architecture))
    yield from map(clusters, cluster_layouts(columns, itemsize, gpu, aligned))
    if not is_split:
        yield split


def softmax_backward(columns: int, dtype: str, gpu: Gpu, aligned: bool) -> Iterator[Build]:
    """Builds of (dy, y, dx), all of one dtype."""
    for config in layouts(columns, ITEM_BYTES[dtype], gpu, aligned, tiles=2):
        yield Build("softmax_backward.SoftmaxBackward", config, (dtype,) * 3, OVERLAPPED, gpu.arch)


def norm(
    columns: int, dtypes: tuple[str, ...], layer: bool, eps: float, gpu: Gpu, aligned: bool, is_few: bool = False
) -> Iterator[Build]:
    """Builds of (x, weight, bias, residual, y, residual_out, rstd, mean), of these dtypes, "" for what is absent.

    is_few  there are at most FEW_ROWS rows, of which each gets threads of its own
    """
    tiles = 2 if dtypes[RESIDUAL] else 1
    for config in layouts(columns, ITEM_BYTES[dtypes[0]], gpu, aligned, tiles, terms=2 if layer else 1):
        taken = replace(config, rows_per_thread=1) if is_few else config
        yield Build("norm.Norm", taken, dtypes, (("layer", layer), ("eps", eps), *OVERLAPPED), gpu.arch)


def layouts(
    columns: int, itemsize: int, gpu: Gpu, aligned: bool, tiles: int = 1, terms: int = 0
) -> Iterator[ElementwiseTileConfig]:
    """One CTA or cluster a row, of any length that it can be made for."""
    yield from cluster_layouts(columns, itemsize, gpu, aligned, tiles, terms)
    yield from long_layouts(columns, itemsize, gpu, aligned)


def cluster_layouts(
    columns: int, itemsize: int, gpu: Gpu, aligned: bool, tiles: int = 1, terms: int = 0
) -> Iterator[ElementwiseTileConfig]:
    """The table's choice, then clusters of half the size down to the least that keeps the row.

    A GPU may refuse a large cluster: where multiprocessors are switched off, an H20 for one, no group of sixteen is left.
    """
    try:
        config = choose(columns, itemsize, gpu.architecture, aligned, tiles, terms)
    except ValueError:
        return
    while config.cluster and config.shared_bytes(tiles) <= SHARED_BYTES[gpu.architecture]:
        yield config
        if config.cluster == 1:
            return
        config = _of_cluster(replace(config, keep="shared", rows_per_thread=1), config.cluster // 2)


def long_layouts(columns: int, itemsize: int, gpu: Gpu, aligned: bool) -> Iterator[ElementwiseTileConfig]:
    """For rows beyond what a cluster keeps: read twice."""
    if gpu.architecture not in MAX_CLUSTER:
        return
    for cluster in (16, 8):
        config = ElementwiseTileConfig(columns, itemsize, aligned=aligned)
        each = share(config.vectors, cluster)
        if LEAST_LONG_SHARE_BYTES <= each * VECTOR_BYTES <= MOST_VECTORS_PER_THREAD * MAX_THREADS * VECTOR_BYTES:
            yield _of_cluster(replace(config, keep="l1"), cluster)


def _of_cluster(config: ElementwiseTileConfig, cluster: int) -> ElementwiseTileConfig:
    vectors = share(config.vectors, cluster)
    threads = min(MAX_THREADS, max(config.threads, ceil_div(ceil_div(vectors, 8), WARP) * WARP))
    return replace(config, cluster=cluster, threads=threads, threads_per_row=threads)


def split_layout(columns: int, itemsize: int, gpu: Gpu, aligned: bool, is_single: bool = False) -> SplitTileConfig:
    """Every multiprocessor has a CTA with a share of every row.

    Several rows follow one another through as many stages as shared memory has room for; a single one is in registers.
    Rows that are too long for that are read twice.
    """
    team = math.isqrt(gpu.processors - 1) + 1
    twice = SplitTileConfig(columns, itemsize, gpu.processors, TWICE_THREADS, 0, team, aligned)
    if is_single:
        single = replace(twice, threads=SINGLE_THREADS, stages=1)
        return single if single.vectors_per_thread <= MOST_SINGLE_VECTORS else twice
    least, most = RING_WARPS
    warps = min(most, max(least, ceil_div(twice.cta_vectors, RING_VECTORS * WARP)))
    ring = replace(twice, threads=2 * warps * WARP)
    room = SHARED_BYTES.get(gpu.architecture, 0)
    stages = range(MOST_STAGES, LEAST_STAGES - 1, -1)
    return next((c for n in stages if (c := replace(ring, stages=n)).shared_bytes <= room), twice)


def few(rows: int, columns: int, itemsize: int, gpu: Gpu) -> str:
    """What becomes of so many rows if they are few: "" where they are not.

    "cluster": more CTAs a row than where rows are many. "split": over the whole GPU, much of which the largest clusters,
    one a row, would leave idle; "single": so, of one row. But a row of 1 MiB and less is done by a cluster before the GPU's
    CTAs have told one another their maxima.
    """
    row_bytes = columns * itemsize
    if row_bytes < LEAST_FEW_ROW_BYTES or gpu.architecture not in MAX_CLUSTER:
        return ""
    if row_bytes <= CLUSTER_ROW_BYTES:
        return "cluster" if rows <= FEW_ROWS else ""
    if rows == 1:
        return "single"
    return "split" if rows <= gpu.processors // MAX_CLUSTER[gpu.architecture] * 2 else ""


def whole_vectors(columns: int, itemsize: int) -> bool:
    """Whether rows of so many elements are whole 16-byte vectors; they may still start anywhere."""
    return columns * itemsize % VECTOR_BYTES == 0


def describe(config: Any) -> str:
    """A layout in a word, for the name of a kernel."""
    if isinstance(config, SplitTileConfig):
        return f"split_{config.ctas}"
    return f"cluster_{config.cluster}" + ("" if config.aligned else "_unaligned")
