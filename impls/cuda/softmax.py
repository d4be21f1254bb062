"""Softmax in CUDA C++: a ladder, each rung with one idea more than the one before it.

All rungs read 16 bytes at a time from rows that begin anywhere and are of any length, and take float16, bfloat16 or
float32 to the same dtype or float32. A chunk is what a group of threads, at most a block, takes of a row.
"""

from __future__ import annotations

from softbench import implementation

from . import _host, _plans


@implementation(
    operator="softmax",
    requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"],
    known_failures={
        "softmax-*-shifted_*": "exp(x) overflows float32 from 88.8 on, and loses digits from -87.3 down",
        "softmax-*-uniform_500_1000": "exp(x) overflows float32 from 88.8 on",
        "softmax-*-drawn_*": "exp(x) overflows float32 from 88.8 on, and is 0 below -104",
        "softmax-*-dtype_max": "exp(x) overflows float32 from 88.8 on",
        "softmax-*-plus_inf": "exp(x) / inf is 0 in the whole row where NaN is right",
        "softmax-*-all_min": "every exp(x) is 0, and so is their sum",
    },
    ladder=True,
)
def cuda_naive(case):
    """exp(x) over the sum of exp(x), in two kernels, without the maximum: wrong above 88 in float32."""
    return _host.prepare(case, _plans.NAIVE)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_multi_pass(case):
    """The maximum first: two reductions, each going on over levels of kernels until a number a row is left."""
    return _host.prepare(case, _plans.MULTI_PASS)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_fused(case):
    """Maximum and sum of a chunk in one pass; one block merges a row's: three kernels, one read less."""
    return _host.prepare(case, _plans.FUSED)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_fused_wide(case):
    """The merge by many blocks, level by level, where a row has more chunks than one block merges soon."""
    return _host.prepare(case, _plans.FUSED_WIDE)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_fused_two(case):
    """No kernel for the merge: fewer, longer chunks, which every block of the last kernel merges for itself."""
    return _host.prepare(case, _plans.FUSED_TWO)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_online(case):
    """A running maximum and sum a thread: no chunk is too long, so one kernel serves where rows are many."""
    return _host.prepare(case, _plans.ONLINE)


@implementation(operator="softmax", requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_warp(case):
    """Rows of up to 4 KiB in the registers of a warp: read once, reduced by shuffles, no barrier."""
    return _host.prepare(case, _plans.WARP)


@implementation(operator="softmax", requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"])
def cuda_cooperative(case):
    """Rows in shared memory, read once; blocks that are all on the GPU share those that one cannot hold."""
    return _host.prepare(case, _plans.COOPERATIVE)


@implementation(operator="softmax", requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_on_chip(case):
    """Long rows in registers and shared memory of the whole GPU: read once, in bulk copies of which few are under way."""
    return _host.prepare(case, _plans.ON_CHIP)


@cuda_naive.cubins
def naive_cubins(case):
    return _host.cubins(case, _plans.NAIVE)


@cuda_multi_pass.cubins
def multi_pass_cubins(case):
    return _host.cubins(case, _plans.MULTI_PASS)


@cuda_fused.cubins
def fused_cubins(case):
    return _host.cubins(case, _plans.FUSED)


@cuda_fused_wide.cubins
def fused_wide_cubins(case):
    return _host.cubins(case, _plans.FUSED_WIDE)


@cuda_fused_two.cubins
def fused_two_cubins(case):
    return _host.cubins(case, _plans.FUSED_TWO)


@cuda_online.cubins
def online_cubins(case):
    return _host.cubins(case, _plans.ONLINE)


@cuda_warp.cubins
def warp_cubins(case):
    return _host.cubins(case, _plans.WARP)


@cuda_cooperative.cubins
def cooperative_cubins(case):
    return _host.cubins(case, _plans.COOPERATIVE)


@cuda_on_chip.cubins
def on_chip_cubins(case):
    return _host.cubins(case, _plans.ON_CHIP)
