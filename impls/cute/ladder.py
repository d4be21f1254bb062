"""The CuTe softmax in rising order: one cluster per row in every rung, and one idea more in each.

    cute_l1         the row is read twice; the first-level cache serves the second read
    cute_shared     the row is read once and waits in shared memory, where asynchronous copies bring it
    cute_two_stage  short rows wait in registers; the maximum is exchanged, then the sum
    cute_softmax    one exchange of (max, sum) pairs; few or very long rows are split over the GPU (softmax.py)

The rungs are implementations, not parameters of one, since only the fastest variant of an implementation is ranked.
A rung refuses rows that its idea does not change.
"""

from softbench import implementation

from . import _launch, _plans

L1 = _plans.rung(keep="l1")
SHARED = _plans.rung(keep="shared")
TWO_STAGE = _plans.rung(online=False)


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"], ladder=True)
def cute_l1(case):
    """The row is read twice, the second time from the first-level cache."""
    return _launch.launch(case, L1)


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"], ladder=True)
def cute_shared(case):
    """The row waits in shared memory, where asynchronous copies bring it."""
    return _launch.launch(case, SHARED)


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"], ladder=True)
def cute_two_stage(case):
    """The maximum is exchanged, then the sum."""
    return _launch.launch(case, TWO_STAGE)


@cute_l1.cubins
def l1_cubins(case):
    return _launch.cubins(case, L1)


@cute_shared.cubins
def shared_cubins(case):
    return _launch.cubins(case, SHARED)


@cute_two_stage.cubins
def two_stage_cubins(case):
    return _launch.cubins(case, TWO_STAGE)
