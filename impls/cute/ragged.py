"""Softmax of each segment of a row in CuTe DSL: here -> kernels/segmented.py, or kernels/ragged.py."""

from softbench import Unsupported, implementation

from . import _launch, _plans
from ._host import Build
from .htile.config import MAX_CLUSTER, REGISTERS, VECTOR_BYTES, WARP, RowTileConfig, ceil_div, power
from .htile.segmented import SegmentTileConfig

SHARE_BYTES, VECTORS, MOST_THREADS = 16 * 1024, 4, 512  # of a CTA; VECTORS of a thread, if its row is not longer
WHOLE_BYTES = {2: 96 * 1024, 4: 16 * 1024}  # of the average segment, by the bytes of an element, from which CTAs share it
# Threads of a segment for each vector of the average one; from how many on for each fewer, by the bytes of an element; and at most,
# of which three CTAs have room. Longer segments than LONG_VECTORS have LONG_THREADS, with one vector each.
SEGMENT_THREADS, MANY_THREADS, MOST_SEGMENT_THREADS = 0.75, {2: (112, 0.5), 4: (256, 0.6)}, 640
LONG_VECTORS, LONG_THREADS = 3072, 960
CTA_BYTES = 2048  # of a CTA's short segments together
WORDS = 48  # for which a thread has 64 registers, or 42 of float32, where more CTAs gain more than what spills costs; else 128


@implementation(operator="ragged_softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"])
def cute_ragged(case):
    import torch

    _plans.check(case)
    dtype, kernel = getattr(torch, case.out_dtype), _launch.by_alignment(case, of_case)

    def launch(x, ends):
        y = x.new_empty(case.shape, dtype=dtype)
        if case.elements:
            rows = _launch.as_matrix(x, case.columns)
            kernel(rows)(rows, ends.contiguous(), y.view(rows.shape))
        return y

    return launch


@cute_ragged.cubins
def cubins(case):
    return _launch.cubins(case, of_case)


def of_case(case, gpu, aligned):
    """The builds of a case, at least one, as `_plans.of_case`."""
    _plans.check(case)
    size, dtypes, most = _plans.ITEM_BYTES[case.dtype], (case.dtype, "int64", case.out_dtype), MAX_CLUSTER.get(gpu.architecture, 0)
    if not most:
        raise Unsupported(f"{case.columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    segments = dict(case.params)["segments"]
    whole = dict.fromkeys(choose_ragged(case.columns, size, aligned, n) for n in (most, most // 2))
    builds = [Build("ragged.RaggedSoftmax", config, dtypes, case.params, gpu.arch) for config in whole if config]
    apart = choose_segmented(case.columns, size, segments, aligned)
    alone = Build("segmented.SegmentedSoftmax", apart, dtypes, case.params, gpu.arch)
    is_whole = builds and (builds[0].config.cluster == 1 or case.columns * size >= segments * WHOLE_BYTES[size])
    return [*builds, alone] if is_whole else [alone]


def choose_segmented(columns: int, itemsize: int, segments: int, aligned: bool = True) -> SegmentTileConfig:
    """The layout for segments one by one: threads hold as much as the average one or more, if it is not long."""
    bytes_ = columns * itemsize / segments
    vectors = bytes_ / VECTOR_BYTES
    many, fewer = MANY_THREADS[itemsize]
    most = min(SEGMENT_THREADS * vectors, max(many, fewer * vectors), MOST_SEGMENT_THREADS)
    step = WARP if most < 4 * WARP else 2 * WARP
    each = round(most / step) * step or max(4, 1 << int(most).bit_length() >> 1)
    each = LONG_THREADS if vectors > LONG_VECTORS else each
    threads = max(each, WARP)
    passes = max(1, min(4, ceil_div(segments * each, threads), round(CTA_BYTES * each / threads / bytes_)))
    turns = 1 if each == LONG_THREADS else 3 if itemsize == 4 and each < WARP else 2
    return SegmentTileConfig(columns, itemsize, segments, threads, each, passes, turns, aligned)


def choose_ragged(columns: int, itemsize: int, aligned: bool = True, most: int = 16) -> RowTileConfig | None:
    """The layout for rows of segments, in registers; None for longer rows than a cluster of `most` CTAs keeps."""
    row = RowTileConfig(columns, itemsize, aligned=aligned)
    cluster = min(most, power(ceil_div(row.vectors * VECTOR_BYTES, SHARE_BYTES)))
    vectors = row.share(cluster)
    turns = max(VECTORS, ceil_div(vectors, MOST_THREADS))
    threads = ceil_div(ceil_div(vectors, turns), WARP) * WARP
    words = ceil_div(vectors, threads) * (row.vector + VECTOR_BYTES // 4)  # values as float32, and as they come
    if words > 2 * WORDS:
        return None
    registers = 128 if words > WORDS else 42 if itemsize == 4 else 64
    resident = max(1, REGISTERS // (threads * registers))
    return RowTileConfig(columns, itemsize, cluster, threads, threads, aligned=aligned, resident=resident)
