"""RMSNorm and LayerNorm in CuTe DSL, alone and after the addition of a residual.

    here -> _plans.py          in which layout
         -> kernels/norm.py

`_launch.py` turns a build and tensors into a launch, `_norm_functions.py` holds the function of torch tensors.
"""

from softbench import implementation

from . import _launch, _plans


@implementation(
    operator=["rmsnorm", "layernorm", "add_rmsnorm", "add_layernorm"],
    requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"],
)
def cute_norm(case):
    return _launch.launch(case, _plans.of_case)


@cute_norm.cubins
def cubins(case):
    return _launch.cubins(case, _plans.of_case)
