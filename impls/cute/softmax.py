"""softmax and its gradient in CuTe DSL: one exchange of (max, sum) pairs, rows in registers; and as torch functions."""

from __future__ import annotations

from softbench import implementation

from . import _entries
from ._functions import softmax, softmax_backward

__all__ = ["cute_softmax", "softmax", "softmax_backward"]


@implementation(
    operator=["softmax", "softmax_backward"], requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"]
)
def cute_softmax(case):
    return _entries.launch(case)


@cute_softmax.cubins
def cubins(case):
    return _entries.cubins(case)
