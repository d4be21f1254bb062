"""softmax and its gradient in CuTe DSL, one exchange of (max, sum) pairs per row.

    here -> _plans.py          which kernel serves a case, in which layout
         -> kernels/softmax.py, split_softmax.py, softmax_backward.py

`_launch.py` turns a build and tensors into a launch, `_functions.py` holds the torch functions.
"""

from softbench import implementation

from . import _launch, _plans


@implementation(
    operator=["softmax", "log_softmax", "softmax_backward", "log_softmax_backward"],
    requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"],
)
def cute_softmax(case):
    return _launch.launch(case, _plans.of_case)


@cute_softmax.cubins
def cubins(case):
    return _launch.cubins(case, _plans.of_case)
