"""Liger's Triton softmax: one tile a row. Called through its autograd function, the only public way in."""

from __future__ import annotations

from softbench import Unsupported, implementation

# liger_kernel.ops.utils.calculate_settings raises above it.
MAX_COLUMNS = 65536


# "triton" is not required by name: that would run Liger's kernel in the interpreter where there is no GPU.
@implementation(operator="softmax", requires=["cuda>=sm_80", "liger-kernel"])
def liger(case):
    if case.out_dtype != case.dtype:
        raise Unsupported("Liger's output has its input's dtype")
    if not case.shape:
        raise Unsupported("Liger takes no 0-d input")
    if case.columns > MAX_COLUMNS:
        raise Unsupported(f"Liger raises above {MAX_COLUMNS} columns, its largest Triton block")
    if case.columns == 0:
        raise Unsupported("Liger cannot reshape rows of no columns")
    from liger_kernel.ops import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply
