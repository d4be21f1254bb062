"""Softmax under a mask of bools, an added one or a causal one, in CuTe DSL, in softmax's layouts.

here -> kernels/masks.py, packed.py or causal.py
"""

from softbench import Unsupported, implementation

from . import _launch, _layouts, _plans
from ._host import Build
from .htile.layouts import choose_masked


@implementation(
    operator=["masked_softmax", "biased_softmax", "causal_softmax"],
    requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"],
)
def cute_masks(case):
    import torch

    _plans.check(case)
    dtype, kernel = getattr(torch, case.out_dtype), _launch.by_alignment(case, of_case)

    def launch(*inputs):
        y = inputs[0].new_empty(case.shape, dtype=dtype)
        if case.elements and case.operator == "causal_softmax":
            (x, last, slope), is_sloped = inputs, dict(case.params)["alibi"] > 0
            x = _launch.as_matrix(x, case.columns)
            kernel(x)(x, last, slope if is_sloped else None, y.view(x.shape))
        elif case.elements:
            rows = [_launch.as_matrix(t, case.columns) for t in inputs]
            rows = [t.view(torch.uint8) if t.dtype is torch.bool else t for t in rows]
            kernel(*rows)(*rows, y.view(rows[0].shape))
        return y

    return launch


@cute_masks.cubins
def cubins(case):
    return _launch.cubins(case, of_case)


def of_case(case, gpu, aligned):
    """The builds of a case, at least one, as `_plans.of_case`."""
    _plans.check(case)
    builds = (causal if case.operator == "causal_softmax" else masked)(case, gpu, aligned)
    if not builds:
        raise Unsupported(f"{case.columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return builds


def masked(case, gpu, aligned):
    mask = "uint8" if case.operator == "masked_softmax" else case.dtype
    dtypes, size = (case.dtype, mask, case.out_dtype), _plans.ITEM_BYTES[case.dtype]
    tiles, dense = 1 + _plans.ITEM_BYTES.get(mask, 1) / size, case.layout == "contiguous"
    builds = list(_plans.packed("MaskedSoftmax", case.columns, dtypes, gpu, dense, tiles, flags=case.params))
    held = choose_masked(case.columns, size, _plans.ITEM_BYTES.get(mask, 1), aligned, gpu.architecture)
    layouts = _plans.dense_first([*filter(None, [held]), *_layouts.layouts(case.columns, size, gpu, aligned, tiles=2)])
    return builds + [Build("masks.MaskedSoftmax", layout, dtypes, case.params, gpu.arch) for layout in layouts]


def causal(case, gpu, aligned):
    params = dict(case.params)
    layouts = _layouts.span_layouts(case.columns, _plans.ITEM_BYTES[case.dtype], gpu, aligned, params.pop("window"))
    dtypes = (case.dtype, "int64", "float32" if params["alibi"] > 0 else "", case.out_dtype)
    return [Build("causal.CausalSoftmax", layout, dtypes, tuple(params.items()), gpu.arch) for layout in layouts]
