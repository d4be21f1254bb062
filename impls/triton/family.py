"""The softmax family over dense rows in Triton: losses, masks, gradients, a router's top-k.

    here -> _rows.py, _topk.py

Parameters of a case are constants of its kernel.
"""

from __future__ import annotations

import os

import torch
import triton

from softbench import Unsupported, implementation

from . import _rows, _topk
from ._launch import Call, bind, build
from ._plans import ITEM_BYTES, Plan

VECTOR, MOST_LANES = 8, 512
MOST_EXPERTS, ROUTER_WARPS = 1024, 4
HELD_BYTES = 2**17
"""Of rows from here on a program of 1024 threads keeps 64 KiB or 80 in registers: what it reads twice then stays in the L2."""


@implementation(
    operator=[
        "log_softmax_backward",
        "cross_entropy",
        "cross_entropy_backward",
        "cross_entropy_both",
        "masked_softmax",
        "biased_softmax",
        "causal_softmax",
        "ragged_softmax",
        "softmax_topk",
    ],
    requires=["cuda>=sm_80", "triton"],
)
def triton_family(case):
    """A row per program, in chunks, read twice where an output is as wide; the largest one after the other."""
    call, outputs, warps = of_case(case)
    dtypes = [getattr(torch, dtype) for dtype in call.pointers.values()]
    known = {}

    def launch(*inputs):
        written = [torch.empty(s, dtype=d, device=inputs[0].device) for s, d in zip(outputs, dtypes, strict=False)]
        tensors = [*written, *(x.contiguous() for x in inputs)]
        unaligned = tuple(n for n, x in zip(call.pointers, tensors, strict=True) if x.data_ptr() % 16)
        if case.elements and unaligned not in known:
            known[unaligned] = bind(call, Plan("rows", 0, warps), unaligned)
        if case.elements:
            known[unaligned](*tensors)
        return tuple(written) if case.operator in ("cross_entropy_both", "softmax_topk") else written[0]

    return launch


@triton_family.cubins
def cubins(case):
    call, _, warps = of_case(case)
    if case.elements:
        yield call.kernel.__name__, build(call, Plan("rows", 0, warps)).asm["cubin"]


def of_case(case):
    """The kernel of a case, the shapes of its outputs, and warps. Raises Unsupported for float64 and too wide routers."""
    if "float64" in (case.dtype, case.out_dtype):
        raise Unsupported("the kernels compute in float32")
    params, sizes = {name.upper(): value for name, value in case.params}, {"columns": case.columns}
    x, out, rows = case.dtype, case.out_dtype, case.rows
    if case.operator == "softmax_topk":
        return _router(case, params), [(rows, params["K"])] * 2, ROUTER_WARPS
    if case.operator == "ragged_softmax":
        constants = params | {"V": VECTOR if case.elements % VECTOR == 0 else 1, "LANES": 128}
        pointers = {"y_ptr": out, "x_ptr": x, "ends_ptr": "int64"}
        return Call(_rows.ragged, rows * params["SEGMENTS"], pointers, sizes, constants), [case.shape], 4
    lanes = min(MOST_LANES, triton.next_power_of_2(max(1, -(-case.columns // VECTOR))))
    chunks, warps = -(-case.columns // (lanes * VECTOR)), max(1, lanes // 32)
    constants = params | {"CHUNKS": chunks, "LANES": lanes, "V": VECTOR}
    row = {"x_ptr": x, "target_ptr": "int64"}
    if case.operator == "cross_entropy_backward":
        pointers = {"dx_ptr": out} | row | {"lse_ptr": "float32", "dloss_ptr": "float32"}
        return Call(_rows.loss_backward, rows * chunks, pointers, sizes, constants), [case.shape], warps
    if case.operator.startswith("cross_entropy"):
        both = constants["GRADIENT"] = case.operator == "cross_entropy_both"
        constants |= {"HELD": 0, "PACKED": False}
        if both and case.columns * ITEM_BYTES[x] >= HELD_BYTES:
            constants, warps = constants | _held(case), 32
        call = Call(_rows.loss, rows, {"loss_ptr": "float32", "dx_ptr": out} | row, sizes, constants)
        return call, [(rows,), case.shape if both else (1,)], warps
    if case.operator == "causal_softmax":
        pointers = {"y_ptr": out, "x_ptr": x, "last_ptr": "int64", "slope_ptr": "float32"}
        return Call(_rows.causal, rows, pointers, sizes, constants), [case.shape], warps
    if case.operator == "log_softmax_backward":
        kernel, other = _rows.log_softmax_backward, x
    else:
        adds = constants["ADDS"] = case.operator == "biased_softmax"
        kernel, other = _rows.masked, x if adds else "bool"
    return Call(kernel, rows, {"y_ptr": out, "x_ptr": x, "other_ptr": other}, sizes, constants), [case.shape], warps


def _router(case, params):
    """A warp, or a part of one, per row."""
    if not 0 < case.columns <= MOST_EXPERTS:
        raise Unsupported(f"{case.columns} columns; a warp takes 1 to {MOST_EXPERTS}")
    block = triton.next_power_of_2(case.columns)
    lanes = min(block, 32)
    height = 32 * ROUTER_WARPS // lanes
    constants = params | {"ROWS": height, "LANES": lanes, "STAGES": (block // lanes).bit_length() - 1}
    pointers = {"weight_ptr": "float32", "expert_ptr": "int32", "x_ptr": case.dtype}
    sizes = {"columns": case.columns, "rows": case.rows}
    return Call(_topk.topk, -(-case.rows // height), pointers, sizes, constants)


def _held(case):
    """Constants of 1024 threads that keep as much of a row as their registers take."""
    narrow = ITEM_BYTES[case.dtype] == 2
    packed = narrow and os.environ.get("TRITON_INTERPRET") != "1"
    chunks = -(-case.columns // (1024 * VECTOR))
    return {"LANES": 1024, "CHUNKS": chunks, "HELD": 5 if narrow else 2, "PACKED": packed}
