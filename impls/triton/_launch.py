"""From a plan to compiled kernels and a launch: the same build with a GPU and without one."""

import functools
import math
import os
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import driver

from ._chunks import chunks
from ._pieces import pieces
from ._plans import ITEM_BYTES, check
from ._split import normalise, statistics
from ._three_pass import three_pass
from ._tile import tile

TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"} | {
    "int32": "i32",
    "int64": "i64",
    "bool": "i1",
}
VECTOR_BYTES = 16
HOPPER = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True)
class Call:
    """One kernel of a plan: `pointers` maps its first arguments to dtypes, `sizes` are integers, the others constants."""

    kernel: Any
    programs: int
    pointers: dict[str, str]
    sizes: dict[str, int]
    constants: dict[str, Any]


def calls(case, plan, strides):
    """The kernels of a plan for an x of (rows, columns) with these two strides in elements."""
    row_stride, column_stride = strides
    if case.rows == 1:
        row_stride = 0  # never multiplied by a row other than 0; a view may give it any value
    vec = vector(case.columns, row_stride, ITEM_BYTES[case.dtype]) if plan.wide and column_stride == 1 else 1
    sizes = {"rows": case.rows, "vectors": case.columns // vec, "x_row": row_stride // vec, "x_column": column_stride}
    constants = {"VEC": vec, "BLOCK": plan.block, "CHUNKS": -(-case.columns // (plan.block * plan.parts))}
    pointers = {"y_ptr": case.out_dtype, "x_ptr": case.dtype}
    work = {"work_ptr": work_dtype(case)}
    log = case.operator == "log_softmax"
    if plan.form == "split":
        del sizes["rows"]
        constants |= {"SPAN": plan.span, "PARTS": plan.parts, "PDL": plan.pdl}
        merge = constants | {"PARTS_BLOCK": triton.next_power_of_2(plan.parts), "LOG": log}
        first = Call(statistics, case.rows * plan.parts, work | {"x_ptr": case.dtype}, sizes, constants)
        pointers = {"y_ptr": case.out_dtype} | work | {"x_ptr": case.dtype}
        return first, Call(normalise, case.rows * plan.parts, pointers, sizes, merge)
    if plan.form == "three_pass":
        return (Call(three_pass, case.rows, pointers, sizes, constants),)
    constants |= {"EXP2": plan.exp2, "PDL": plan.pdl, "LOG": log}
    if plan.form == "chunks":
        constants |= {"STAGES": plan.num_stages, "UNROLL": plan.unroll, "HINTS": plan.hints}
        return (Call(chunks, case.rows, pointers, sizes, constants),)
    constants["POLICY"] = plan.policy
    if plan.form == "pieces":
        constants["PACKED"] = plan.packed
        return (Call(pieces, case.rows, pointers, sizes, constants),)
    del constants["CHUNKS"]
    constants |= {"ROWS": plan.rows, "REREAD": plan.reread}
    return (Call(tile, -(-case.rows // plan.rows), pointers, sizes, constants),)


def vector(columns, row_stride, item):
    """The most elements (a power of two, 16 bytes at most) that divide a row's length and its stride."""
    return math.gcd(columns, row_stride, VECTOR_BYTES // item)


def work_dtype(case):
    return "float64" if case.dtype == "float64" else "float32"


def build(call, plan, unaligned=(), target=HOPPER):
    """Compile one kernel. Of a wide plan all pointers but the `unaligned` ones are multiples of 16 bytes.

    This does once what triton's own dispatch does at every call: ones become constants, multiples of 16 are marked.
    """
    constants = call.constants | {name: value for name, value in call.sizes.items() if plan.wide and value == 1}
    signature = {name: f"*{TYPES[dtype]}" for name, dtype in call.pointers.items()}
    signature |= {name: "i32" if value < 2**31 else "i64" for name, value in call.sizes.items()}
    signature |= dict.fromkeys(constants, "constexpr")
    names = call.kernel.arg_names
    even = {name for name in call.pointers if name not in unaligned}
    even |= {name for name, value in call.sizes.items() if value != 1 and value % 16 == 0}
    attrs = {(names.index(name),): [["tt.divisibility", 16]] for name in even} if plan.wide else {}
    source = ASTSource(call.kernel, {name: signature[name] for name in names}, constexprs=constants, attrs=attrs)
    # Triton 3.9 warns where fusion is left to its default.
    options = {"num_warps": plan.num_warps, "launch_pdl": plan.pdl, "enable_fp_fusion": True}
    return triton.compile(source, target=target, options=options)


def compile_dense(case, plan, target):
    """Compile the kernels of a plan for dense and aligned rows, into triton's cache."""
    plan = runnable(plan)
    for call in calls(case, plan, (case.columns, 1)):
        build(call, plan, target=target)


def bind(call, plan, unaligned):
    """launch(*tensors) of one kernel on the current device, without triton's dispatch.

    With a driver that does nothing a call takes 4.4 us, 1.6 of them for the output; through triton's dispatch 12.
    """
    names = call.kernel.arg_names[len(call.pointers) :]
    arguments = call.sizes | call.constants
    if os.environ.get("TRITON_INTERPRET") == "1":
        program = call.kernel[(call.programs,)]
        return lambda *tensors: program(*tensors, **arguments)
    device = driver.active.get_current_device()
    stream = driver.active.get_current_stream
    built = build(call, plan, unaligned, driver.active.get_current_target())
    run, function, metadata = built.run, built.function, built.packed_metadata
    programs, rest = call.programs, tuple(arguments[name] for name in names)

    def launch(*tensors):
        addresses = [tensor.data_ptr() for tensor in tensors]
        run(programs, 1, 1, stream(device), function, metadata, None, None, None, *addresses, *rest)

    return launch


def prepare(case, plan):
    """launch(x) -> y: a kernel is compiled for each combination of strides and alignment that occurs."""
    out_dtype = getattr(torch, case.out_dtype)
    matrix, shape = (case.rows, case.columns), case.shape
    if case.elements == 0:
        return lambda x: torch.empty(x.shape, dtype=out_dtype, device=x.device)
    dense = (case.columns, 1) if case.dtype == case.out_dtype else None
    known = {}

    def launch(x):
        rows = x if x.dim() == 2 else x.reshape(matrix)
        strides, is_aligned = rows.stride(), rows.data_ptr() % VECTOR_BYTES == 0
        # 0.75 us less than an output whose shape, dtype and device are given one by one.
        y = torch.empty_like(x) if rows is x and strides == dense else torch.empty(shape, dtype=out_dtype, device=x.device)
        kernel = known.get((strides, is_aligned))
        if kernel is None:
            kernel = known[strides, is_aligned] = _through(case, plan, strides, is_aligned)
        kernel(y, rows)
        return y

    return launch


def runnable(plan):
    """The plan as this machine can run it: no PTX in the interpreter, no dependent launch before sm_90."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return replace(plan, pdl=False, packed=False)
    return plan if driver.active.get_current_target().arch >= 90 else replace(plan, pdl=False)


def _through(case, plan, strides, is_aligned):
    unaligned = () if is_aligned else ("x_ptr",)
    plan = runnable(plan)
    bound = [bind(call, plan, unaligned) for call in calls(case, plan, strides)]
    if plan.form != "split":
        return bound[0]
    first, second = bound
    shape, dtype = (case.rows, 2, plan.parts), getattr(torch, work_dtype(case))

    def launch(y, x):
        work = torch.empty(shape, dtype=dtype, device=x.device)
        first(work, x)
        second(y, work, x)

    return launch


def of(choose):
    """Decorator that binds a function of (case, choose) to a rung's plan; applied to a bound function, it replaces the plan."""
    return lambda function: functools.partial(getattr(function, "func", function), choose=choose)


def cubins(case, choose):
    """(kernel name, sm_90a cubin) of a case under the plan of `choose`, for dense and aligned rows."""
    check(case)
    if case.elements == 0:
        return
    plan = choose(case)
    for call in calls(case, plan, (case.columns, 1)):
        yield call.kernel.__name__, build(call, plan).asm["cubin"]


def rung(case, choose):
    """The launch of a case under a fixed plan; raises Unsupported where the family, or `choose`, does not serve it."""
    check(case)
    return prepare(case, choose(case) if case.elements else None)
