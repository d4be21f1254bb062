"""Cross-entropy, its gradient, and both in one pass in CuTe DSL: a softmax whose rows end in a loss.

here -> kernels/losses.py, in the layouts of softmax

In place as well: a vector is stored by the thread that has read it, and after its last use.
"""

import functools
from math import inf

from softbench import Unsupported, implementation

from . import _launch, _layouts, _plans
from ._host import Build
from .htile.config import SAFE_CLUSTER, RowTileConfig, ceil_div, power
from .htile.layouts import choose_apart, choose_few

MOST_BYTES, LEAST_VECTORS, THREADS = 32 * 1024, 6, 256  # of a CTA's share, of a thread, of a CTA, where a row is only read


@implementation(
    operator=["cross_entropy", "cross_entropy_backward", "cross_entropy_both", "cross_entropy_in_place"],
    requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"],
)
def cute_losses(case):
    import torch

    check(case)
    is_alone, is_over = case.operator == "cross_entropy", case.operator == "cross_entropy_in_place"
    dtype, kernel = getattr(torch, case.out_dtype), _launch.by_alignment(case, of_case)

    def launch(logits, target, *given):
        make = functools.partial(torch.empty, device=logits.device)
        loss = () if given else (make(case.rows, dtype=torch.float32),)
        dlogits = None if is_alone else logits if is_over else make(case.shape, dtype=dtype)
        if case.elements:
            rows = _launch.as_matrix(logits, case.columns)
            out = dlogits if is_alone else rows if is_over else dlogits.view(rows.shape)
            kernel(rows)(rows, target, *given, *loss, out)
            if is_over and rows.data_ptr() != logits.data_ptr():
                logits.copy_(rows.view(logits.shape))
        return dlogits if given else loss[0] if is_alone else (*loss, dlogits)

    return launch


@cute_losses.cubins
def cubins(case):
    return _launch.cubins(case, of_case)


def check(case):
    """Raises Unsupported for dtypes that no kernel serves."""
    if case.dtype not in _plans.ITEM_BYTES or case.out_dtype not in (case.dtype, "float32"):
        raise Unsupported(f"{case.dtype} to {case.out_dtype}: the kernels take and write 16 bits, or write float32")


def of_case(case, gpu, aligned):
    """The builds of a case, at least one, as `_plans.of_case`."""
    check(case)
    columns, size, kernel = case.columns, _plans.ITEM_BYTES[case.dtype], "losses.CrossEntropy"
    dtypes = (case.dtype, "int64", "float32", "" if case.operator == "cross_entropy" else case.out_dtype)
    layouts = list(_layouts.layouts(columns, size, gpu, aligned))
    if case.operator.endswith("backward"):
        kernel, dtypes = f"{kernel}Backward", (*dtypes[:3], "float32", case.out_dtype)
        layouts = [choose_apart(columns, size, aligned)]
    elif (times := _layouts.few_times(case.rows, columns, size, gpu, aligned)).get("cluster", inf) < times.get("some", 0):
        layouts.insert(0, choose_few(columns, size, gpu.architecture, aligned))
    elif layouts and case.operator == "cross_entropy":
        layouts = [*only_read(columns, size, aligned), *(half for half in layouts[1:2] if half.keep == "shared"), *layouts]
    if not layouts:
        raise Unsupported(f"{columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return [Build(kernel, layout, dtypes, case.params, gpu.arch) for layout in layouts]


def only_read(columns: int, size: int, aligned: bool):
    """The layout of rows in registers that a loss has room for, of 20 to 32 KiB a CTA. Others are faster in half the clusters."""
    cluster = power(ceil_div(columns * size, MOST_BYTES))
    if aligned and cluster <= SAFE_CLUSTER:
        config = RowTileConfig(columns, size, cluster, THREADS, THREADS)
        if config.vectors_per_thread >= LEAST_VECTORS:
            yield config
