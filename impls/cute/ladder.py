"""Other ways to the same softmax, one rung each, so that a board shows what every idea is worth.

They are implementations and not parameters of one: of an implementation's variants only the fastest is ranked.
"""

from __future__ import annotations

from softbench import implementation

from . import _entries

TWO_STAGE = _entries.rung(online=False)
L1 = _entries.rung(keep="l1")
SHARED = _entries.rung(keep="shared")


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"], ladder=True)
def cute_two_stage(case):
    """The maximum is exchanged, then the sum."""
    return _entries.launch(case, TWO_STAGE)


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"], ladder=True)
def cute_l1(case):
    """The row is read twice, the second time out of the first-level cache."""
    return _entries.launch(case, L1)


@implementation(operator="softmax", requires=["cuda>=sm_90", "nvidia-cutlass-dsl>=4.8", "apache-tvm-ffi"], ladder=True)
def cute_shared(case):
    """The row waits in shared memory, where asynchronous copies bring it."""
    return _entries.launch(case, SHARED)


@cute_two_stage.cubins
def two_stage_cubins(case):
    return _entries.cubins(case, TWO_STAGE)


@cute_l1.cubins
def l1_cubins(case):
    return _entries.cubins(case, L1)


@cute_shared.cubins
def shared_cubins(case):
    return _entries.cubins(case, SHARED)
