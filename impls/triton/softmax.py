"""Online softmax in Triton: one tile a program for short rows, two passes over chunks for rows of any length."""

from __future__ import annotations

import math
from dataclasses import dataclass

from softbench import Unsupported, implementation

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
TRITON_TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
VECTOR_BYTES = 16
MAX_COLUMNS = 2**31 - 2**16  # a column plus one block is counted in 32 bits; rows and offsets in 64


@dataclass(frozen=True)
class Plan:
    """How one case is launched: a tile of `rows` x `block` a program, or (`long`) one row in chunks of `block`."""

    long: bool
    block: int
    rows: int
    num_warps: int
    reread: bool = False


def plan(case):
    """Choose the launch of a case from its row length and item size alone; pure, needs no GPU.

    A tile takes rows up to 64 KiB and 16384 elements: twice as many leave one program a SM, with nothing to overlap.
    """
    item = ITEM_BYTES[case.dtype]
    block = 1 << max(case.columns - 1, 0).bit_length()
    if block > 16384 or block * item > 65536:
        # Eight elements a thread of 512 threads: their maxima and sums stay in registers.
        return Plan(long=True, block=4096 if item < 8 else 2048, rows=1, num_warps=16)
    tile_bytes = block * item
    rows = max(1, min(4096 // tile_bytes, 128))
    tile_bytes *= rows
    num_warps = 4 if tile_bytes <= 4096 else 8 if tile_bytes <= 16384 else 16
    return Plan(long=False, block=block, rows=rows, num_warps=num_warps, reread=block * item >= 4096)


def vector(columns, row_stride, item):
    """The most elements (a power of two, 16 bytes at most) that divide a row's length and its stride."""
    return math.gcd(columns, row_stride, VECTOR_BYTES // item)


def arguments(case, chosen, strides):
    """Kernel arguments after the two pointers and its constants, for x with these two strides in elements."""
    row_stride, column_stride = strides
    if case.rows == 1:
        row_stride = 0  # never multiplied by a row other than 0; a view may give it any value
    vec = vector(case.columns, row_stride, ITEM_BYTES[case.dtype]) if column_stride == 1 else 1
    sizes = {"vectors": case.columns // vec, "x_row": row_stride // vec, "x_column": column_stride}
    constants = {"VEC": vec, "BLOCK": chosen.block}
    if not chosen.long:
        sizes = {"rows": case.rows, **sizes}
        constants |= {"ROWS": chosen.rows, "REREAD": chosen.reread}
    return sizes, constants


def check(case):
    for dtype in (case.dtype, case.out_dtype):
        if dtype not in ITEM_BYTES:
            raise Unsupported(f"{dtype} is not one of {', '.join(ITEM_BYTES)}")
    if case.columns > MAX_COLUMNS:
        raise Unsupported(f"rows hold {MAX_COLUMNS} elements at most")


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def triton_online(case):
    check(case)
    import torch

    from ._online import softmax_long, softmax_tile

    out_dtype = getattr(torch, case.out_dtype)
    if case.elements == 0:
        return lambda x: torch.empty(x.shape, dtype=out_dtype, device=x.device)
    chosen = plan(case)
    kernel = softmax_long if chosen.long else softmax_tile
    program = kernel[(-(-case.rows // chosen.rows),)]
    matrix = (case.rows, case.columns)
    launches = {}

    def launch(x):
        y = torch.empty(x.shape, dtype=out_dtype, device=x.device)
        rows = x if x.dim() == 2 else x.reshape(matrix)
        strides = rows.stride()
        if strides not in launches:
            sizes, constants = arguments(case, chosen, strides)
            # Triton 3.9 warns where fusion is left to its default.
            launches[strides] = sizes | constants | {"num_warps": chosen.num_warps, "enable_fp_fusion": True}
        program(y, rows, **launches[strides])
        return y

    return launch


@triton_online.cubins
def compiled(case):
    check(case)
    if case.elements == 0:
        return
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ._online import softmax_long, softmax_tile

    chosen = plan(case)
    kernel = softmax_long if chosen.long else softmax_tile
    sizes, constants = arguments(case, chosen, (case.columns, 1))
    # The launcher does the same to each argument: ones become constants, multiples of 16 are marked.
    constants |= {name: value for name, value in sizes.items() if value == 1}
    signature = {"y_ptr": f"*{TRITON_TYPES[case.out_dtype]}", "x_ptr": f"*{TRITON_TYPES[case.dtype]}"}
    signature |= {name: "i32" if value < 2**31 else "i64" for name, value in sizes.items()}
    signature |= dict.fromkeys(constants, "constexpr")
    aligned = ["y_ptr", "x_ptr", *(name for name, value in sizes.items() if value != 1 and value % 16 == 0)]
    attrs = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    built = triton.compile(
        ASTSource(kernel, signature=signature, constexprs=constants, attrs=attrs),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": chosen.num_warps, "enable_fp_fusion": True},
    )
    yield kernel.__name__, built.asm["cubin"]
