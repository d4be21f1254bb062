"""Attention on tensor cores in CUDA C++, a ladder in rising order: one source with switches, one idea per rung.

    attention_scalar  tensor cores for Q K^T; scores go through shared memory, and P V is summed key by key
    attention_staged  tensor cores for both products; scores, P and the statistics go through shared memory
    attention_fused   the softmax on the registers in which the first product leaves its scores, and the second reads P

A block takes 64 queries of a head through the keys, in tiles of 64.

    here -> _attention.py           the switches of a rung, and its launch
         -> kernels/attention.cu    with softmax_tile.cuh, the softmax of one tile, and mma.cuh
"""

from softbench import implementation

from . import _attention


@implementation(
    operator=["attention", "attention_causal"],
    requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"],
    known_failures={
        "attention*-shifted_*": "scores are stored as half, which behind an offset have lost their digits",
        "attention*-float16-*-growing": "scores are stored as half, which errs by 1/128 at 30, more than P in float16 may",
        "attention*-drawn_*": "scores are stored in 16 bits, and drawn ones lie far from 0",
    },
    ladder=True,
)
def attention_scalar(case):
    """Tensor cores for Q K^T alone; P V is summed key by key."""
    return _attention.prepare(case, _attention.SCALAR)


@implementation(
    operator=["attention", "attention_causal"],
    requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"],
    known_failures={
        "attention*-shifted_*": "scores are stored as half, which behind an offset have lost their digits",
        "attention*-float16-*-growing": "scores are stored as half, which errs by 1/128 at 30, more than P in float16 may",
        "attention*-drawn_*": "scores are stored in 16 bits, and drawn ones lie far from 0",
    },
    ladder=True,
)
def attention_staged(case):
    """Both products on tensor cores; scores and P go through shared memory, and a warp takes one row after the other."""
    return _attention.prepare(case, _attention.STAGED)


@implementation(operator=["attention", "attention_causal"], requires=["cuda>=sm_90", "cuda-core", "cuda-bindings"])
def attention_fused(case):
    """The softmax on the fragments in registers; with the environment variable USE_FUSED_SOFTMAX=0 the staged form."""
    return _attention.prepare(case, _attention.chosen())


@attention_scalar.cubins
def scalar_cubins(case):
    return _attention.cubins(case, _attention.SCALAR)


@attention_staged.cubins
def staged_cubins(case):
    return _attention.cubins(case, _attention.STAGED)


@attention_fused.cubins
def fused_cubins(case):
    return _attention.cubins(case, _attention.chosen())
