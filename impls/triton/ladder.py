"""One idea a rung, from three passes to two reads: a board of these shows what each idea is worth.

Each has one fixed plan a case. What was learned from them is `triton_best`.
"""

from __future__ import annotations

from softbench import implementation

from . import _launch, _plans


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_three_pass(case):
    """Baseline: maximum, sum and output each read the row, an element a load."""
    return _launch.rung(case, _plans.three_pass)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_single(case):
    """A: one pass; the row waits in registers."""
    return _launch.rung(case, _plans.single)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_wide(case):
    """B: the compiler is told what is a multiple of 16 bytes, and loads that much a thread."""
    return _launch.rung(case, _plans.wide)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_chunked(case):
    """C: rows of any length, online over chunks that pass through shared memory."""
    return _launch.rung(case, _plans.chunked)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_exp2(case):
    """D: exp2 of a difference times log2(e) in the place of exp."""
    return _launch.rung(case, _plans.exp2)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_unrolled(case):
    """E: four chunks a turn of the loop."""
    return _launch.rung(case, _plans.unrolled)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"], ladder=True)
def triton_two_reads(case):
    """F: every row is read twice, first to stay in the caches, then to leave them, and stores follow their loads."""
    return _launch.rung(case, _plans.two_reads)


@triton_three_pass.cubins
def three_pass_cubins(case):
    return _launch.cubins(case, _plans.three_pass)


@triton_single.cubins
def single_cubins(case):
    return _launch.cubins(case, _plans.single)


@triton_wide.cubins
def wide_cubins(case):
    return _launch.cubins(case, _plans.wide)


@triton_chunked.cubins
def chunked_cubins(case):
    return _launch.cubins(case, _plans.chunked)


@triton_exp2.cubins
def exp2_cubins(case):
    return _launch.cubins(case, _plans.exp2)


@triton_unrolled.cubins
def unrolled_cubins(case):
    return _launch.cubins(case, _plans.unrolled)


@triton_two_reads.cubins
def two_reads_cubins(case):
    return _launch.cubins(case, _plans.two_reads)
