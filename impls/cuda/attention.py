"""Attention on tensor cores in CUDA C++: one source, in the stages of its life.

A block takes 64 queries of a head and goes through the keys in tiles of 64. The forms differ in the softmax between the two
products, and the first also in the second product.
"""

from __future__ import annotations

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
    """Tensor cores for Q K^T alone; P V is summed up key by key."""
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
    """Both products on tensor cores; scores and P pass through shared memory, the softmax is a row after the other."""
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
