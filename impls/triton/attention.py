"""Attention in Triton: tiles of keys under a running softmax, products on tensor cores, any strides.

This file has the launch and `_flash.py` the kernel.
"""

import math

from softbench import Unsupported, implementation, keys_of, scale_of

MOST_PROGRAMS = 2**31 - 1


@implementation(
    operator=["attention", "attention_causal"], requires=["cuda>=sm_80", "triton"], params={"tile": ["64x64", "128x64", "128x128"]}
)
def triton_attention(case, tile):
    """tile: queries of a program, 16 per warp, and keys that it takes at a time."""
    import torch

    sizes, constants, options = plan(case, tile)
    if case.elements == 0:
        return lambda q, k, v: torch.empty(q.shape, dtype=q.dtype, device=q.device)
    from ._flash import flash

    program = flash[(programs(case, constants),)]

    def launch(q, k, v):
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        program(out, q, k, v, *q.stride(), *k.stride(), *v.stride(), *sizes, **constants, **options)
        return out

    return launch


def plan(case, tile):
    """Sizes, constants and options of a launch; few queries are a tile of 16.

    Raises Unsupported for a head dimension that is no power of two from 16 to 256.
    """
    rows, keys = map(int, tile.split("x"))
    dimension = case.columns
    if dimension & (dimension - 1) or not 16 <= dimension <= 256:
        raise Unsupported(f"a head dimension of {dimension}; the kernel takes powers of two from 16 to 256")
    causal = case.operator == "attention_causal"
    # Three tiles of K and V of up to 16 KB each in flight, two of larger ones: shared memory holds no more.
    stages = 3 if keys * dimension <= 8192 else 2
    if case.shape[-2] <= 16:
        rows = 16
    constants = {"DIM": dimension, "BLOCK_M": rows, "BLOCK_N": keys, "CAUSAL": causal, "STAGES": stages}
    sizes = (case.shape[1], case.shape[-2], keys_of(case), scale_of(case) * math.log2(math.e))
    # Triton 3.9 warns where fusion is left to its default.
    return sizes, constants, {"num_warps": max(4, rows // 16), "num_stages": stages, "enable_fp_fusion": True}


def programs(case, constants):
    batch, heads, queries, _ = case.shape
    count = batch * heads * -(-queries // constants["BLOCK_M"])
    if count > MOST_PROGRAMS:
        raise Unsupported(f"{count} blocks of queries are more than a grid has")
    return count


@triton_attention.cubins
def cubins(case, tile):
    """For inputs that are contiguous."""
    from triton import compile as build
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ._flash import flash

    _, constants, options = plan(case, tile)
    if case.elements == 0:
        return
    names = flash.arg_names
    pointer = {"float16": "*fp16", "bfloat16": "*bf16"}[case.dtype]
    unit = {name: 1 for name in names if name.endswith("_column")}
    signature = {name: pointer if name.endswith("_ptr") else "i32" for name in names}
    signature |= {"scale": "fp32"} | dict.fromkeys({**constants, **unit}, "constexpr")
    even = [i for i, name in enumerate(names) if name.endswith(("_ptr", "_batch", "_head", "_row"))]
    attrs = {(index,): [["tt.divisibility", 16]] for index in even}
    source = ASTSource(flash, signature=signature, constexprs={**constants, **unit}, attrs=attrs)
    yield flash.__name__, build(source, target=GPUTarget("cuda", 90, 32), options=options).asm["cubin"]
