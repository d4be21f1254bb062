"""The softmax family over dense rows in Triton: losses, masks, gradients, a router's top-k.

    here -> _rows.py, _segments.py, _spans.py, _topk.py, _lists.py

Parameters of a case are constants of its kernel.
"""

import math
import os

import torch
import triton

from softbench import Unsupported, implementation

from . import _rows, _segments, _spans, _topk
from ._launch import Call, bind, build, runnable
from ._plans import ITEM_BYTES, Plan

SPAN_ITEMS, SEGMENT_BYTES, SEGMENTS_AHEAD = 32, 32, 2048
"""What a thread has of a row or of an average segment, and the warps before which that is asked for into the L2."""
KINDS = {"masked_softmax": ("bools", "bool"), "biased_softmax": ("adds", ""), "causal_softmax": ("causal", "int64")}
"""What a span is, and the dtype of the input that tells it, "" for that of x."""
MOST_EXPERTS, ROUTER_WARPS = 1024, 1
HELD_BYTES = 2**17
"""Of rows from here on a program of 1024 threads keeps 64 KiB or 80 in registers: what it reads twice then stays in the L2."""


TWICE = ("cross_entropy_both", "cross_entropy_in_place", "log_softmax_backward")


@implementation(
    operator=[
        "log_softmax_backward",
        "cross_entropy",
        "cross_entropy_backward",
        "cross_entropy_both",
        "cross_entropy_in_place",
        "masked_softmax",
        "biased_softmax",
        "causal_softmax",
        "ragged_softmax",
        "softmax_topk",
    ],
    requires=["cuda>=sm_80", "triton"],
)
def triton_family(case):
    """A row per program, in chunks, read twice where an output is as wide; the largest one after the other.

    A program reads a chunk of its row before it writes there, so the row may be the output.
    """
    call, outputs, warps = of_case(case)
    dtypes = [getattr(torch, dtype) for dtype in call.pointers.values()]
    known, is_over = {}, case.operator == "cross_entropy_in_place"

    def launch(*inputs):
        written = [torch.empty(s, dtype=d, device=inputs[0].device) for s, d in zip(outputs, dtypes, strict=False)]
        dense = [x.contiguous() for x in inputs]
        tensors = [*written, *dense[:is_over], *dense]
        unaligned = tuple(n for n, x in zip(call.pointers, tensors, strict=True) if x.data_ptr() % 16)
        if case.elements and unaligned not in known:
            known[unaligned] = bind(call, _plan(call, warps), unaligned)
        if case.elements:
            known[unaligned](*tensors)
        if is_over:
            return written[0], inputs[0] if dense[0] is inputs[0] else inputs[0].copy_(dense[0])
        return tuple(written) if case.operator in ("cross_entropy_both", "softmax_topk") else written[0]

    return launch


@triton_family.cubins
def cubins(case):
    call, _, warps = of_case(case)
    if case.elements:
        yield call.kernel.__name__, build(call, Plan("rows", 0, warps, pdl="PDL" in call.constants)).asm["cubin"]


def _plan(call, warps):
    """Launches of kernels that know PDL overlap where the machine can."""
    plan = runnable(Plan("rows", 0, warps, pdl="PDL" in call.constants))
    if "PDL" in call.constants:
        call.constants["PDL"] = plan.pdl
    return plan


def of_case(case):
    """The kernel of a case, the shapes of its outputs, and warps. Raises Unsupported for float64 and too wide routers."""
    if "float64" in (case.dtype, case.out_dtype):
        raise Unsupported("the kernels compute in float32")
    params, sizes = {name.upper(): value for name, value in case.params}, {"columns": case.columns}
    x, out, rows = case.dtype, case.out_dtype, case.rows
    if case.operator == "softmax_topk":
        return _router(case, params), [(rows, params["K"])] * 2, ROUTER_WARPS
    if case.operator in KINDS:
        return _of_span(case, params)
    if case.operator == "ragged_softmax":
        return _of_segments(case, params)
    constants, warps = _chunks(case)
    constants |= params
    row = {"x_ptr": x, "target_ptr": "int64"}
    if case.operator == "cross_entropy_backward":
        pointers = {"dx_ptr": out} | row | {"lse_ptr": "float32", "dloss_ptr": "float32"}
        return Call(_rows.loss_backward, rows * constants["CHUNKS"], pointers, sizes, constants), [case.shape], warps
    if case.operator.startswith("cross_entropy"):
        both = constants["GRADIENT"] = case.operator != "cross_entropy"
        call = Call(_rows.loss, rows, {"loss_ptr": "float32", "dx_ptr": out} | row, sizes, constants)
        wide = [case.shape if both else (1,)] if case.operator != "cross_entropy_in_place" else []
        return call, [(rows,), *wide], warps
    pointers = {"y_ptr": out, "x_ptr": x, "other_ptr": x}
    return Call(_rows.log_softmax_backward, rows, pointers, sizes, constants), [case.shape], warps


def _chunks(case):
    """Warps for chunks of 8 elements a thread; 1024 threads keep a part of a long row that is read twice in registers."""
    narrow = ITEM_BYTES[case.dtype] == 2
    is_long = case.operator in TWICE and case.columns * ITEM_BYTES[case.dtype] >= HELD_BYTES
    warps = 32 if is_long else min(16, max(1, triton.next_power_of_2(-(-case.columns // 256))))
    vector = math.gcd(case.columns, 16 // ITEM_BYTES[case.dtype])
    constants = {"LANES": 256 * warps // vector, "V": vector, "CHUNKS": -(-case.columns // (256 * warps))}
    if case.operator != "cross_entropy_backward":
        constants["HELD"] = (5 if narrow else 2) if is_long else 0
        constants["PACKED"] = narrow and os.environ.get("TRITON_INTERPRET") != "1"
    return constants, warps


def _of_span(case, params):
    """Threads for 32 elements each of what is seen of a row.

    Vectors are as wide as the first row's and the last one's end allow; rows that begin within one have edges. Causal rows do not.
    """
    kind, other = KINDS[case.operator]
    constants = {"WINDOW": 0, "ALIBI": 0, "SCALE": 1.0} | params | {"KIND": kind, "PDL": True}
    if constants["WINDOW"] >= case.columns:
        constants["WINDOW"] = 0
    seen = constants["WINDOW"] or case.columns
    warps = min(triton.next_power_of_2(-(-max(1, seen) // (32 * SPAN_ITEMS))), 16)
    vector = math.gcd(case.columns if kind == "causal" else case.elements, 16 // ITEM_BYTES[case.dtype])
    lanes = 32 * warps * (1 if vector > 1 else 8)
    width, most = lanes * vector, SPAN_ITEMS * 32 * warps
    edges = case.columns % vector > 0
    chunks = -(-(case.columns + edges * (vector - 1)) // width)
    needed = min(chunks, -(-seen // width) + (seen < case.columns))
    held = needed if needed * width <= most * 5 // 4 else 0
    constants |= {"CHUNKS": chunks, "HELD": held, "LANES": lanes, "V": vector, "EDGES": edges}
    pointers = {"y_ptr": case.out_dtype, "x_ptr": case.dtype, "other_ptr": other or case.dtype}
    if kind == "causal":
        pointers["slope_ptr"] = "float32"
    else:
        constants["slope_ptr"] = None
    return Call(_spans.spans, case.rows, pointers, {"columns": case.columns}, constants), [case.shape], warps


def _of_segments(case, params):
    """Threads for 32 bytes each of a segment of average length; each holds twice that."""
    item, compiles = ITEM_BYTES[case.dtype], os.environ.get("TRITON_INTERPRET") != "1"
    most = SEGMENT_BYTES // item * 32
    warps = min(triton.next_power_of_2(-(-max(1, case.columns // params["SEGMENTS"]) // most)), 16)
    vector = math.gcd(case.elements, 16 // item)
    lanes = 32 * warps * (1 if vector > 1 else 8)
    held = max(1, min(-(-case.columns // (lanes * vector)), 2 * most * warps // (lanes * vector)))
    constants = params | {"HELD": held, "LANES": lanes, "V": vector, "PDL": True}
    constants |= {"AHEAD": SEGMENTS_AHEAD // warps * compiles, "PACKED": item == 2 and compiles}
    pointers = {"y_ptr": case.out_dtype, "x_ptr": case.dtype, "ends_ptr": "int64"}
    call = Call(_segments.segments, case.rows * params["SEGMENTS"], pointers, {"columns": case.columns}, constants)
    return call, [case.shape], warps


def _router(case, params):
    """Lanes of K to 32 columns each, but enough for loads of 64 bytes, and as many rows as they leave room for.

    Of more than 8 of at least 256 columns a warp takes a row, and a lane's 8 largest.
    """
    if not 0 < case.columns <= MOST_EXPERTS:
        raise Unsupported(f"{case.columns} columns; a warp takes 1 to {MOST_EXPERTS}")
    block, k = triton.next_power_of_2(case.columns), params["K"]
    vector = math.gcd(case.columns, 16 // ITEM_BYTES[case.dtype])
    is_wide = block >= 256 and k > 8
    lanes = 32 if is_wide else min(max(block // 32, 4), block // max(vector, triton.next_power_of_2(k)))
    depth = 8 if is_wide else triton.next_power_of_2(k + (k < 8 and case.dtype == "float32"))
    constants = params | {"ROWS": 32 * ROUTER_WARPS // lanes, "LANES": lanes, "PIECES": block // vector // lanes}
    constants |= {"V": vector, "VECTORS": case.columns // vector, "DEPTH": min(depth, block // lanes), "PDL": True}
    pointers = {"weight_ptr": "float32", "expert_ptr": "int32", "x_ptr": case.dtype}
    return Call(_topk.topk, -(-case.rows // constants["ROWS"]), pointers, {"rows": case.rows}, constants)
