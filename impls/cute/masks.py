"""Softmax under a mask of bools or an added one, in CuTe DSL: here -> kernels/masks.py or packed.py, in softmax's layouts."""

from softbench import Unsupported, implementation

from . import _launch, _layouts, _plans
from ._host import Build


@implementation(
    operator=["masked_softmax", "biased_softmax"], requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"]
)
def cute_masks(case):
    import torch

    _plans.check(case)
    dtype, kernel = getattr(torch, case.out_dtype), _launch.by_alignment(case, of_case)

    def launch(*inputs):
        y = torch.empty(case.shape, dtype=dtype, device=inputs[0].device)
        if case.elements:
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
    mask = "uint8" if case.operator == "masked_softmax" else case.dtype
    dtypes, size = (case.dtype, mask, case.out_dtype), _plans.ITEM_BYTES[case.dtype]
    tiles, dense = 1 + _plans.ITEM_BYTES.get(mask, 1) / size, case.layout == "contiguous"
    builds = list(_plans.packed("MaskedSoftmax", case.columns, dtypes, gpu, dense, tiles, flags=case.params))
    layouts = _layouts.layouts(case.columns, size, gpu, aligned, tiles=2)
    builds += [Build("masks.MaskedSoftmax", layout, dtypes, case.params, gpu.arch) for layout in layouts]
    if not builds:
        raise Unsupported(f"{case.columns} columns of {case.dtype}: no layout on {gpu.architecture}")
    return builds
