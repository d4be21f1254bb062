"""RMSNorm and LayerNorm in CuTe DSL, alone and behind the addition of a residual; and as torch functions."""

from __future__ import annotations

from softbench import implementation

from . import _entries
from ._norm_functions import layer_norm, rms_norm

__all__ = ["cute_norm", "layer_norm", "rms_norm"]


@implementation(
    operator=["rmsnorm", "layernorm", "add_rmsnorm", "add_layernorm"],
    requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"],
)
def cute_norm(case):
    return _entries.launch(case)


@cute_norm.cubins
def cubins(case):
    return _entries.cubins(case)
