"""Softmax in CUDA C++, a ladder in rising order: each rung has one idea more than the rung before.

    cuda_naive        naive.cu        exp(x) over the sum of exp(x), without the maximum: two kernels, and overflow from 88.8 on
    cuda_multi_pass   multi_pass.cu   the maximum first: correct, at the price of a second reduction, level by level
    cuda_fused        fused.cu        a chunk's maximum and sum in one pass: one read less, three kernels
    cuda_fused_wide   fused.cu        many blocks merge the chunks of a row, for rows of very many chunks
    cuda_fused_two    fused.cu        the last kernel merges the chunks itself: two kernels, fewer and longer chunks
    cuda_online       online.cu       a running (maximum, sum) per thread: one kernel where there are many rows
    cuda_warp         warp.cu         rows up to 4 KiB in a warp's registers: one read, shuffles, no barrier
    cuda_cooperative  cooperative.cu  rows in shared memory, and long ones shared by blocks that are all on the GPU: one read
    cuda_on_chip      on_chip.cu      long rows in the registers and shared memory of the whole GPU, by bulk copies

Every rung reads 16 bytes at a time from rows that begin anywhere and have any length, and takes float16, bfloat16 or
float32 to the same dtype or float32. A chunk is the part of a row that a group of threads, at most a block, reads at once.

    here -> _plans.py          how a rung cuts rows into launches, and which kernels of which source it uses
         -> kernels/*.cu

`_host.py` compiles the source and enqueues the launches.
"""

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
    """The maximum first: two reductions, each over levels of kernels until one number per row is left."""
    return _host.prepare(case, _plans.MULTI_PASS)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_fused(case):
    """Maximum and sum of a chunk in one pass; one block merges those of a row: three kernels, one read less."""
    return _host.prepare(case, _plans.FUSED)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_fused_wide(case):
    """Many blocks merge a row, level by level, where it has more chunks than one block merges fast."""
    return _host.prepare(case, _plans.FUSED_WIDE)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_fused_two(case):
    """No kernel for the merge: fewer, longer chunks, and every block of the last kernel merges them itself."""
    return _host.prepare(case, _plans.FUSED_TWO)


@implementation(operator="softmax", requires=["cuda>=sm_80", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_online(case):
    """A running maximum and sum per thread: no chunk is too long, so one kernel serves many rows."""
    return _host.prepare(case, _plans.ONLINE)


@implementation(operator="softmax", requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_warp(case):
    """Rows of up to 4 KiB in the registers of a warp: read once, reduced by shuffles, no barrier."""
    return _host.prepare(case, _plans.WARP)


@implementation(operator="softmax", requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"])
def cuda_cooperative(case):
    """Rows in shared memory, read once; blocks that are all on the GPU share a row that one cannot hold."""
    return _host.prepare(case, _plans.COOPERATIVE)


@implementation(operator="softmax", requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"], ladder=True)
def cuda_on_chip(case):
    """Long rows in registers and shared memory of the whole GPU: read once, by bulk copies, few at a time."""
    return _host.prepare(case, _plans.ON_CHIP)


@cuda_naive.cubins
@_host.of(_plans.NAIVE)
@cuda_multi_pass.cubins
@_host.of(_plans.MULTI_PASS)
@cuda_fused.cubins
@_host.of(_plans.FUSED)
@cuda_fused_wide.cubins
@_host.of(_plans.FUSED_WIDE)
@cuda_fused_two.cubins
@_host.of(_plans.FUSED_TWO)
@cuda_online.cubins
@_host.of(_plans.ONLINE)
@cuda_warp.cubins
@_host.of(_plans.WARP)
@cuda_cooperative.cubins
@_host.of(_plans.COOPERATIVE)
@cuda_on_chip.cubins
@_host.of(_plans.ON_CHIP)
def cubins(case, rung):
    """(kernel, sm_90a cubin) of each kernel of a rung that a case uses; without a GPU."""
    return _host.cubins(case, rung)
