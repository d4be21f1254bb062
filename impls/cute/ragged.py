"""Softmax of each segment of a row in CuTe DSL: here -> kernels/ragged.py."""

from softbench import Unsupported, implementation

from . import _launch, _plans
from ._host import Build
from .htile.config import MAX_CLUSTER, REGISTERS, VECTOR_BYTES, WARP, RowTileConfig, ceil_div, power, share

SHARE_BYTES, VECTORS, MOST_THREADS = 16 * 1024, 4, 512  # of a CTA; VECTORS of a thread, if its row is not longer
WORDS = 48  # for which a thread has 64 registers, or 42 of float32, where more CTAs gain more than what spills costs; else 128


@implementation(operator="ragged_softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"])
def cute_ragged(case):
    import torch

    _plans.check(case)
    dtype, kernel = getattr(torch, case.out_dtype), _launch.by_alignment(case, of_case)

    def launch(x, ends):
        y = torch.empty(case.shape, dtype=dtype, device=x.device)
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
    configs = dict.fromkeys(choose_ragged(case.columns, size, aligned, n) for n in (most, most // 2) if n)
    builds = [Build("ragged.RaggedSoftmax", config, dtypes, case.params, gpu.arch) for config in configs if config]
    if not builds:
        raise Unsupported(f"{case.columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return builds


def choose_ragged(
    columns: int, itemsize: int, aligned: bool = True, most: int = 16, share_bytes: int = SHARE_BYTES, each: int = VECTORS
) -> RowTileConfig | None:
    """The layout for rows of segments, in registers; None for longer rows than a cluster of `most` CTAs keeps."""
    row = RowTileConfig(columns, itemsize, aligned=aligned)
    cluster = min(most, power(ceil_div(row.vectors * VECTOR_BYTES, share_bytes)))
    vectors = share(row.vectors, cluster)
    turns = max(each, ceil_div(vectors, MOST_THREADS))
    threads = ceil_div(ceil_div(vectors, turns), WARP) * WARP
    words = ceil_div(vectors, threads) * (row.vector + VECTOR_BYTES // 4)  # values as float32, and as they come
    if words > 2 * WORDS:
        return None
    registers = 128 if words > WORDS else 42 if itemsize == 4 else 64
    resident = max(1, REGISTERS // (threads * registers))
    return RowTileConfig(columns, itemsize, cluster, threads, threads, aligned=aligned, resident=resident)
