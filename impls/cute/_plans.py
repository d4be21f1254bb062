"""Which kernel of `kernels/` serves a case, in which layout: pure functions, without torch and cutlass.

A function yields builds in the order in which they are tried; the first one that the GPU launches is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import softbench
from softbench import Unsupported

from ._host import ARGUMENTS, Build
from ._layouts import FEW_ROWS, Gpu, cluster_layouts, cluster_ring, crews, few, layouts, some_layouts, split_layout
from .htile.config import DENSE_ELEMENTS, MAX_CLUSTER, MOST_COLUMNS, SAFE_CLUSTER, VECTOR_BYTES, RowTileConfig, ceil_div
from .htile.crews import SplitTileConfig
from .htile.layouts import choose_few
from .htile.packing import choose_packed
from .htile.parts import choose_parts
from .htile.side import choose_side

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
RESIDUAL = 3  # place of the residual among a norm's arguments
# Of a row of 16 bits or 32, from which on norms split it over a crew: (LayerNorm, rows are whole vectors). Few rows are split over
# the whole GPU.
CREW_BYTES = {
    (False, False): (40 * 2**10, 46 * 2**10),
    (False, True): (2**17, 5 * 2**16),
    (True, False): (40 * 2**10, 46 * 2**10),
    (True, True): (2**16, 2**17),
}
LONG_NORM_BYTES = 9 * 2**17
PACKED_GRADIENT_COLUMNS = 768  # of 16 bits


def of_case(case, gpu: Gpu, aligned: bool) -> list[Build]:
    """The builds for a case, at least one. Raises Unsupported for dtypes and lengths that no kernel serves."""
    check(case)
    dense, size = case.layout == "contiguous" and case.elements < DENSE_ELEMENTS, ITEM_BYTES[case.dtype]
    if case.operator == "softmax":
        few_rows = few(case.rows, case.columns, size, gpu, aligned)
        builds = list(softmax(case.columns, case.dtype, case.out_dtype, gpu, aligned, few_rows, dense))
        lies = softbench.parse_layout(case.layout)
        if lies.transposed:
            builds = side(case.shape[-2], (case.dtype, case.out_dtype), case.columns, gpu, lies.offset * size) or builds
    elif case.operator.startswith("log_softmax"):
        tiles = 1 + case.operator.endswith("_backward")
        kernel = ("softmax.Softmax", "softmax_backward.SoftmaxBackward")[tiles - 1]
        words = (*[case.dtype] * tiles, case.out_dtype), (("log", True),), gpu.arch
        builds = [
            Build(kernel, c, *words) for c in _alike(dense, cluster_layouts(case.columns, size, gpu, aligned, tiles, plain=True))
        ]
    elif case.operator == "softmax_backward":
        few_rows = few(case.rows, case.columns, size, gpu, aligned, tiles=2)
        builds = list(softmax_backward(case.columns, case.dtype, case.dtype, gpu, aligned, few_rows, dense))
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
            configs = [build.config for build in clusters]
            configs = [replace(config, keep=keep, beside=config.beside if keep == "shared" else 0) for config in configs]
            clusters = [replace(build, config=config) for build, config in zip(clusters, configs, strict=True)]
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
    columns: int, dtype: str, out_dtype: str, gpu: Gpu, aligned: bool, few: str | int = "", dense: bool = False
) -> Iterator[Build]:
    """Builds of (x, y), or of (x, y, workspace) for the kernel that splits rows over the whole GPU.

    few    the word, or the number, of `few` for the number of rows
    dense  as `_layouts.dense` says
    """
    if gpu.architecture not in MAX_CLUSTER or columns > MOST_COLUMNS:
        return
    itemsize = ITEM_BYTES[dtype]
    yield from packed("Softmax", columns, (dtype, out_dtype), gpu, dense)

    def build(kernel: str, config: RowTileConfig | SplitTileConfig, *workspace: str) -> Build:
        return Build(kernel, config, (dtype, out_dtype, *workspace), arch=gpu.arch)

    is_held, parts, some = isinstance(few, int), str(few).partition("parts ")[2], str(few).partition("some ")[2]
    several = few if is_held else crews(columns * itemsize, gpu) if few == "crews" else 1
    split = next(_alike(dense, [split_layout(columns, itemsize, gpu, aligned, is_single=is_held, crews=several)]))
    whole_gpu, is_split = build("split_softmax.SplitSoftmax", split, "int64"), is_held or few in ("split", "crews")
    if is_split:
        yield whole_gpu
    elif parts:
        for config in _alike(dense, [choose_parts(columns, itemsize, int(parts), gpu.architecture, aligned)]):
            yield build("parts.Softmax", config, "int64")
    elif few == "cluster":
        for config in _alike(dense, [choose_few(columns, itemsize, gpu.architecture, aligned)]):
            yield build("softmax.Softmax", config)
    row = (columns, itemsize, gpu, aligned)
    for config in _alike(dense, some_layouts(int(some), *row) if some else cluster_layouts(*row, plain=True)):
        yield build("softmax.Softmax", config)
    if not is_split:
        yield whole_gpu


def side(columns: int, dtypes: tuple[str, str], length: int, gpu: Gpu, place: int = 0) -> list[Build]:
    """Builds of (x, y) for `columns` rows side by side, of `length` steps, x at `place`; none without a layout."""
    configs = {}
    for largest in (2 * SAFE_CLUSTER, SAFE_CLUSTER):
        with suppress(ValueError):
            configs[choose_side(columns, length, ITEM_BYTES[dtypes[0]], gpu.architecture, place, largest)] = None
    return [Build("side.Softmax", config, dtypes, arch=gpu.arch) for config in configs]


def softmax_backward(
    columns: int, dtype: str, out_dtype: str, gpu: Gpu, aligned: bool, few: str | int = "", dense: bool = False
) -> Iterator[Build]:
    """Builds of (dy, y, dx), or of these and a workspace, all of one dtype unless few is ""; otherwise as `softmax`."""
    dtypes, size = (dtype, dtype, out_dtype), ITEM_BYTES[dtype]
    yield from packed("SoftmaxBackward", columns, dtypes, gpu, dense, tiles=2)
    if few in ("split", "crews") and (aligned or dense):
        several = crews(columns * size, gpu, tiles=2) if few == "crews" else 1
        split = next(_alike(dense, [split_layout(columns, size, gpu, aligned, tiles=2, crews=several)]))
        yield Build("split_softmax_backward.SplitSoftmaxBackward", split, (*dtypes, "int64"), arch=gpu.arch)
    for config in _alike(dense, layouts(columns, size, gpu, aligned, tiles=2, plain=True)):
        yield Build("softmax_backward.SoftmaxBackward", config, dtypes, arch=gpu.arch)


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

    is_few  there are at most FEW_ROWS rows, so long ones are split over the whole GPU
    dense   as in `softmax`; weight and bias start on 16 bytes
    heads   weight and bias have a row for each head
    """
    size, flags = ITEM_BYTES[dtypes[0]], (("layer", layer), ("eps", eps), *([("heads", True)] if heads else []))
    tiles, terms = 1 + ceil_div(ITEM_BYTES.get(dtypes[RESIDUAL], 0), size), 2 if layer else 1
    yield from packed("Norm", columns, dtypes, gpu, dense and not heads, tiles, terms, flags)
    is_plain = not heads and not dtypes[RESIDUAL] and {*dtypes[:3]} <= {"", dtypes[0]}
    if is_plain and columns * size >= (LONG_NORM_BYTES if is_few else CREW_BYTES[layer, aligned][size == 4]):
        held = sum(map(bool, dtypes[1:3]))
        several = 1 if is_few else crews(columns * size, gpu, terms)
        cluster = None if is_few else cluster_ring(columns, size, gpu, aligned, held)
        rings = [cluster] if cluster else []
        for ring in _alike(dense, [*rings, split_layout(columns, size, gpu, aligned, terms=held, crews=several)]):
            if ring.is_ring:
                yield Build("split_norm.SplitNorm", ring, (*dtypes, "int64"), flags, gpu.arch)
    for config in _alike(dense, layouts(columns, size, gpu, aligned, tiles, terms)):
        yield Build("norm.Norm", config, dtypes, flags, gpu.arch)


def _alike(dense: bool, configs: Iterable[Any]) -> Iterator[Any]:
    """Rows of dense matrices start alike."""
    return (replace(config, alike=dense and not config.aligned) for config in configs)


def dense_first(configs: Iterable[RowTileConfig]) -> Iterator[RowTileConfig]:
    """Each layout for dense matrices, where that is faster, and then for any."""
    for config in configs:
        if not config.aligned and config.rows == 1:
            yield replace(config, alike=True)
        yield config


def packed(
    name: str, columns: int, dtypes: tuple[str, ...], gpu: Gpu, dense: bool, tiles: float = 1, terms: int = 0, flags=()
) -> Iterator[Build]:
    """The build of `kernels/packed.py` for short dense rows, most of no whole vectors, of one dtype but for masks of bytes."""
    what = ARGUMENTS[f"packed.{name}"]
    matrices = {dtype for dtype, argument in zip(dtypes, what, strict=True) if dtype and argument == "matrix"}
    is_long = name == "SoftmaxBackward" and ITEM_BYTES[dtypes[0]] == 2 and columns > PACKED_GRADIENT_COLUMNS
    if dense and len(matrices - {"uint8"}) == 1 and not is_long:
        config = choose_packed(columns, ITEM_BYTES[dtypes[0]], gpu.architecture, tiles, terms)
        if config is not None:
            yield Build(f"packed.{name}", config, dtypes, flags, gpu.arch)


def whole_vectors(columns: int, itemsize: int) -> bool:
    """Whether rows of so many elements are whole 16-byte vectors; they may still start anywhere."""
    return columns * itemsize % VECTOR_BYTES == 0
