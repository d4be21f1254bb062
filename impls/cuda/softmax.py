"""Softmax in CUDA C++ with three kernels: statistics of chunks, their merge over the row, normalisation."""

from __future__ import annotations

from softbench import implementation


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"])
def cuda_fused(case):
    from . import _fused

    return _fused.prepare(case)


@cuda_fused.cubins
def compiled(case):
    from . import _fused

    cubin = _fused.cubin(case, "sm_90a")
    for name in _fused.KERNELS:
        yield name, cubin
