"""Cross-entropy, its gradient, and both in one pass in CuTe DSL: a softmax whose rows end in a loss.

here -> kernels/streamed.py, or where a gradient is written kernels/losses.py, in the layouts of htile/losses.py

In place as well: a vector is stored by the thread that has read it, and after its last use.
"""

import functools
from math import inf

from softbench import Unsupported, implementation

from . import _launch, _layouts, _plans
from ._host import Build
from .htile.layouts import choose_few
from .htile.losses import choose_apart, choose_held, streamed_layouts


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
            out = () if is_alone else (rows,) if is_over else (dlogits.view(rows.shape),)
            kernel(rows)(rows, target, *given, *loss, *out)
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
    columns, size = case.columns, _plans.ITEM_BYTES[case.dtype]
    if case.operator == "cross_entropy":
        kernel, dtypes = "streamed.CrossEntropy", (case.dtype, "int64", "float32")
        layouts = streamed_layouts(case.rows, columns, size, gpu.processors, aligned, gpu.architecture)
    elif case.operator.endswith("backward"):
        kernel, dtypes = "losses.CrossEntropyBackward", (case.dtype, "int64", "float32", "float32", case.out_dtype)
        layouts = _plans.dense_first([choose_apart(columns, size, aligned)])
    else:
        kernel, dtypes = "losses.CrossEntropyBoth", (case.dtype, "int64", "float32", case.out_dtype)
        layouts = _plans.dense_first(with_gradient(case.rows, columns, size, gpu, aligned))
    builds = [Build(kernel, layout, dtypes, case.params, gpu.arch) for layout in layouts]
    if not builds:
        raise Unsupported(f"{columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return builds


def with_gradient(rows: int, columns: int, size: int, gpu, aligned: bool):
    """The layouts of rows that stay until their gradient is written."""
    times = _layouts.few_times(rows, columns, size, gpu, aligned)
    held = choose_held(columns, size, aligned, gpu.architecture)
    if times.get("cluster", inf) < times.get("some", 0):
        yield choose_few(columns, size, gpu.architecture, aligned)
    elif held and _layouts.fills(rows, held, gpu):
        yield held
    yield from _layouts.layouts(columns, size, gpu, aligned)
