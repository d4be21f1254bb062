"""Softmax in Triton, a ladder in rising order: one idea per rung, from three passes to two reads.

    triton_three_pass  _three_pass.py  maximum, sum and output each read the row, one element per load
    triton_single      _tile.py        one read; the row waits in registers
    triton_wide        _tile.py        the compiler knows what is a multiple of 16 bytes, and loads 16 bytes per thread
    triton_chunked     _chunks.py      rows of any length, online over chunks that go through shared memory
    triton_exp2        both            exp2 of a difference times log2(e) in place of exp
    triton_unrolled    both            four chunks per turn of the loop
    triton_two_reads   both            two reads: the first keeps the row in the caches, the second frees it
    triton_best        all             several short rows per program, long rows of 16 bits held packed (_pieces.py), few long
                                       rows split (_split.py), launches overlap; measured per case (best.py)

Each rung has one fixed plan per case.

    here -> _plans.py          the plan: which kernel, with which constants
         -> _three_pass.py, _tile.py, _chunks.py, ...

`_launch.py` compiles the kernels of a plan and launches them.
"""

from softbench import implementation

from . import _launch, _plans


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_three_pass(case):
    """Baseline: maximum, sum and output each read the row, one element per load."""
    return _launch.rung(case, _plans.three_pass)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_single(case):
    """A: one pass; the row waits in registers."""
    return _launch.rung(case, _plans.single)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_wide(case):
    """B: the compiler knows what is a multiple of 16 bytes, and loads 16 bytes per thread."""
    return _launch.rung(case, _plans.wide)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_chunked(case):
    """C: rows of any length, online over chunks that go through shared memory."""
    return _launch.rung(case, _plans.chunked)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_exp2(case):
    """D: exp2 of a difference times log2(e) in place of exp."""
    return _launch.rung(case, _plans.exp2)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_unrolled(case):
    """E: four chunks per turn of the loop."""
    return _launch.rung(case, _plans.unrolled)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_two_reads(case):
    """F: every row is read twice; the first read keeps it in the caches, the second frees it, and stores follow their loads."""
    return _launch.rung(case, _plans.two_reads)


@triton_three_pass.cubins
@_launch.of(_plans.three_pass)
@triton_single.cubins
@_launch.of(_plans.single)
@triton_wide.cubins
@_launch.of(_plans.wide)
@triton_chunked.cubins
@_launch.of(_plans.chunked)
@triton_exp2.cubins
@_launch.of(_plans.exp2)
@triton_unrolled.cubins
@_launch.of(_plans.unrolled)
@triton_two_reads.cubins
@_launch.of(_plans.two_reads)
def cubins(case, choose):
    """(kernel, sm_90a cubin) of a case under the plan of a rung; without a GPU."""
    return _launch.cubins(case, choose)
