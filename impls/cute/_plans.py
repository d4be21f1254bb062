"""Which kernel of `kernels/` serves a case, in which layout: pure functions, without torch and cutlass.

A function yields builds in the order in which they are tried; the first one that the GPU launches is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import softbench
from softbench import Unsupported

from ._host import ARGUMENTS, Build
from .htile.config import (
    MAX_CLUSTER,
    MAX_THREADS,
    SHARED_BYTES,
    VECTOR_BYTES,
    WARP,
    RowTileConfig,
    SplitTileConfig,
    ceil_div,
    share,
)
from .htile.layouts import SINGLE_BYTES, choose, choose_few
from .htile.packing import choose_packed
from .htile.times import cluster_time, split_time

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
RESIDUAL = 3  # place of the residual among a norm's arguments
LEAST_LONG_SHARE_BYTES = 64 * 1024
# Rows that are split over the whole GPU.
LEAST_STAGES, MOST_STAGES = 3, 14
RING_WARPS = (12, 14)  # that reduce, and as many that write: enough for RING_VECTORS per thread at most
RING_VECTORS = 8
SINGLE_THREADS, MOST_SINGLE_VECTORS = 512, 16
TWICE_THREADS = 960
MOST_FEW_ROWS, MOST_FEW_ROW_BYTES, LEAST_LONG_ROW_BYTES = 128, 5 * 2**18, 2**20
MANY_ROWS = 256  # more rows have the layout of this many
FEW_ROWS = 32  # of a norm
# In rows that are too long for a cluster a thread takes more vectors, in registers that spill; code grows with them.
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


def of_case(case, gpu: Gpu, aligned: bool) -> list[Build]:
    """The builds for a case, at least one. Raises Unsupported for dtypes and lengths that no kernel serves."""
    check(case)
    dense, size = case.layout == "contiguous", ITEM_BYTES[case.dtype]
    if case.operator == "softmax":
        few_rows = few(case.rows, case.columns, size, gpu, aligned)
        builds = list(softmax(case.columns, case.dtype, case.out_dtype, gpu, aligned, few_rows, dense))
    elif case.operator.startswith("log_softmax"):
        tiles = 1 + case.operator.endswith("_backward")
        kernel = ("softmax.Softmax", "softmax_backward.SoftmaxBackward")[tiles - 1]
        words = (*[case.dtype] * tiles, case.out_dtype), (("log", True),), gpu.arch
        builds = [Build(kernel, c, *words) for c in cluster_layouts(case.columns, size, gpu, aligned, tiles)]
    elif case.operator == "softmax_backward":
        builds = list(softmax_backward(case.columns, case.dtype, gpu, aligned, dense))
    else:
        dtypes, is_few = _norm_dtypes(case), case.rows <= FEW_ROWS
        builds = list(norm(case.columns, dtypes, *norm_kind(case), gpu, aligned, is_few, dense))
    if not builds:
        raise Unsupported(f"{case.columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return builds


def rung(keep: str = "", online: bool = True) -> Callable[[Any, Gpu, bool], list[Build]]:
    """As `of_case`, for a rung of the ladder: one CTA or cluster per row, with another `keep` or two exchanges.

    Raises Unsupported also for rows that the change would leave as they are.
    """

    def builds(case, gpu: Gpu, aligned: bool) -> list[Build]:
        clusters = [build for build in of_case(case, gpu, aligned) if build.kernel == "softmax.Softmax"]
        rows = f"{case.columns} columns of {case.dtype}"
        if not clusters:
            raise Unsupported(f"{rows} are split over the whole GPU")
        config = clusters[0].config
        if not online and config.peers == 1:
            raise Unsupported(f"{rows}: a row has one warp, which exchanges nothing")
        if keep and config.vectors_per_thread == 1:
            raise Unsupported(f"{rows}: a thread has one vector, and nothing to keep")
        if keep:
            clusters = [replace(build, config=replace(build.config, keep=keep)) for build in clusters]
        return clusters if online else [replace(b, flags=(*b.flags, ("online", False))) for b in clusters]

    return builds


def check(case):
    """Raises Unsupported for dtypes that no kernel serves, and for the norm of a number."""
    if case.dtype not in ITEM_BYTES:
        raise Unsupported(f"{case.dtype}: the kernels take {', '.join(ITEM_BYTES)}")
    outputs = (case.dtype, "float32") if case.operator.endswith("softmax") else (case.dtype,)
    if case.out_dtype not in outputs:
        raise Unsupported(f"{case.dtype} to {case.out_dtype}: the kernels write {' or '.join(dict.fromkeys(outputs))}")
    if case.operator.endswith("norm") and not case.shape:
        raise Unsupported("a norm needs a dimension to go along")


def norm_kind(case) -> tuple[bool, float]:
    """(whether it is a LayerNorm, eps)."""
    layer = case.operator.endswith("layernorm")
    return layer, softbench.LAYER_EPS if layer else softbench.RMS_EPS


def _norm_dtypes(case) -> tuple[str, ...]:
    """The dtypes of (x, weight, bias, residual, y, residual_out, rstd, mean); "" for absent ones."""
    layer, adds = norm_kind(case)[0], case.operator.startswith("add_")
    bias, added = (case.dtype if layer else ""), (case.dtype if adds else "")
    rstd, mean = ("float32" if adds else ""), ("float32" if adds and layer else "")
    return (case.dtype, case.dtype, bias, added, case.dtype, added, rstd, mean)


def softmax(
    columns: int, dtype: str, out_dtype: str, gpu: Gpu, aligned: bool, few: str = "", dense: bool = False
) -> Iterator[Build]:
    """Builds of (x, y), or of (x, y, workspace) for the kernel that splits rows over the whole GPU.

    few    the word of `few` for the number of rows
    dense  the matrices start on 16 bytes and their rows touch one another
    """
    if gpu.architecture not in MAX_CLUSTER:
        return
    itemsize = ITEM_BYTES[dtype]
    yield from packed("Softmax", columns, (dtype, out_dtype), gpu, dense)

    def build(kernel: str, config: RowTileConfig | SplitTileConfig, *workspace: str) -> Build:
        return Build(kernel, config, (dtype, out_dtype, *workspace), arch=gpu.arch)

    split = split_layout(columns, itemsize, gpu, aligned, is_single=few == "single")
    whole_gpu = build("split_softmax.SplitSoftmax", split, "int64")
    if few in ("single", "split"):
        yield whole_gpu
    elif few:
        yield build("softmax.Softmax", choose_few(columns, itemsize, gpu.architecture, aligned))
    for config in cluster_layouts(columns, itemsize, gpu, aligned):
        yield build("softmax.Softmax", config)
    if few not in ("single", "split"):
        yield whole_gpu


def softmax_backward(columns: int, dtype: str, gpu: Gpu, aligned: bool, dense: bool = False) -> Iterator[Build]:
    """Builds of (dy, y, dx), all of one dtype; dense as in `softmax`."""
    yield from packed("SoftmaxBackward", columns, (dtype,) * 3, gpu, dense, tiles=2)
    for config in layouts(columns, ITEM_BYTES[dtype], gpu, aligned, tiles=2):
        yield Build("softmax_backward.SoftmaxBackward", config, (dtype,) * 3, arch=gpu.arch)


def norm(
    columns: int,
    dtypes: tuple[str, ...],
    layer: bool,
    eps: float,
    gpu: Gpu,
    aligned: bool,
    is_few: bool = False,
    dense: bool = False,
    heads: bool = False,
) -> Iterator[Build]:
    """Builds of (x, weight, bias, residual, y, residual_out, rstd, mean), of these dtypes, "" for absent ones.

    is_few  there are at most FEW_ROWS rows, so each gets threads of its own
    dense   as in `softmax`; weight and bias start on 16 bytes
    heads   weight and bias have a row for each head
    """
    size, flags = ITEM_BYTES[dtypes[0]], (("layer", layer), ("eps", eps), *([("heads", True)] if heads else []))
    tiles, terms = 1 + ceil_div(ITEM_BYTES.get(dtypes[RESIDUAL], 0), size), 2 if layer else 1
    yield from packed("Norm", columns, dtypes, gpu, dense and not heads, tiles, terms, flags)
    for config in layouts(columns, size, gpu, aligned, tiles, terms):
        own = replace(config, rows_per_thread=1) if is_few or heads else config
        yield Build("norm.Norm", own, dtypes, flags, gpu.arch)


def packed(
    name: str, columns: int, dtypes: tuple[str, ...], gpu: Gpu, dense: bool, tiles: int = 1, terms: int = 0, flags=()
) -> Iterator[Build]:
    """The build of `kernels/packed.py` for short dense rows that are no whole vectors, in matrices of one dtype."""
    what = ARGUMENTS[f"packed.{name}"]
    matrices = {dtype for dtype, argument in zip(dtypes, what, strict=True) if dtype and argument == "matrix"}
    if dense and len(matrices) == 1:
        config = choose_packed(columns, ITEM_BYTES[dtypes[0]], gpu.architecture, tiles, terms)
        if config is not None:
            yield Build(f"packed.{name}", config, dtypes, flags, gpu.arch)


def layouts(
    columns: int, itemsize: int, gpu: Gpu, aligned: bool, tiles: int = 1, terms: int = 0
) -> Iterator[RowTileConfig]:
    """One CTA or cluster per row, of any length that has a layout; the longest rows are read twice."""
    yield from cluster_layouts(columns, itemsize, gpu, aligned, tiles, terms)
    if gpu.architecture not in MAX_CLUSTER:
        return
    for cluster in (16, 8):
        config = RowTileConfig(columns, itemsize, aligned=aligned)
        each = share(config.vectors, cluster)
        if LEAST_LONG_SHARE_BYTES <= each * VECTOR_BYTES <= MOST_VECTORS_PER_THREAD * MAX_THREADS * VECTOR_BYTES:
            yield _of_cluster(replace(config, keep="l1"), cluster)


def cluster_layouts(
    columns: int, itemsize: int, gpu: Gpu, aligned: bool, tiles: int = 1, terms: int = 0
) -> Iterator[RowTileConfig]:
    """The table's choice, then clusters of half the size, down to the least that keeps the row.

    A GPU may refuse a large cluster: an H20, some of whose multiprocessors are off, has no group of sixteen left.
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


def _of_cluster(config: RowTileConfig, cluster: int) -> RowTileConfig:
    vectors = share(config.vectors, cluster)
    threads = min(MAX_THREADS, max(config.threads, ceil_div(ceil_div(vectors, 8), WARP) * WARP))
    return replace(config, cluster=cluster, threads=threads, threads_per_row=threads)


def split_layout(columns: int, itemsize: int, gpu: Gpu, aligned: bool, is_single: bool = False) -> SplitTileConfig:
    """Every multiprocessor has a CTA with a share of every row.

    Several rows go through a ring of as many stages as shared memory has room for; a single row is in registers.
    Rows that are too long for either are read twice.
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


def few(rows: int, columns: int, itemsize: int, gpu: Gpu, aligned: bool = True) -> str:
    """How few rows are laid out, or long ones, by the least of `few_times`.

    "": as many rows are. "cluster": more CTAs per row. "split": over the whole GPU; "single": the same for one row.
    """
    times = few_times(rows, columns, itemsize, gpu, aligned)
    return min(times, key=lambda word: times[word], default="")


def few_times(rows: int, columns: int, itemsize: int, gpu: Gpu, aligned: bool = True) -> dict[str, float]:
    """The predicted time of each of `few`'s layouts that the rows have, in µs; none where they are many or short."""
    row_bytes, rows = columns * itemsize, min(rows, MANY_ROWS)
    can_be_cluster = rows <= MOST_FEW_ROWS and row_bytes <= MOST_FEW_ROW_BYTES
    is_long = row_bytes > LEAST_LONG_ROW_BYTES
    if row_bytes <= SINGLE_BYTES or gpu.architecture not in MAX_CLUSTER or not (can_be_cluster or is_long):
        return {}
    times, whole_gpu = {}, "single" if rows == 1 else "split"
    if can_be_cluster:
        config = choose_few(columns, itemsize, gpu.architecture, aligned)
        times["cluster"] = cluster_time(rows, config, gpu.processors)
    for many in itertools.islice(cluster_layouts(columns, itemsize, gpu, aligned), 1):
        times[""] = cluster_time(rows, many, gpu.processors)
    if is_long or rows == 1:
        times[whole_gpu] = split_time(rows, split_layout(columns, itemsize, gpu, aligned, is_single=rows == 1))
    return times


def whole_vectors(columns: int, itemsize: int) -> bool:
    """Whether rows of so many elements are whole 16-byte vectors; they may still start anywhere."""
    return columns * itemsize % VECTOR_BYTES == 0
