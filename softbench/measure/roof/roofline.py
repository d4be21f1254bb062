"""The nearer of two limits, for an operator of two products: arithmetic if there are many flops per byte, else memory.

Arithmetic: one product by cuBLAS with the operator's ideal flops, on normals. This is the speed of a library on tensor cores at
the power that real operands draw; an operator that does more than multiply stays below it.
Memory: the kernel of `copy` on q and on k, which reads and writes as many bytes as q, k, v and an output have; for a file `_any`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from softbench.cases import operators
from softbench.cases.operators.attention import keys_of
from softbench.contract import Unsupported, implementation
from softbench.model import BALANCE, Case

from . import _any

SIDES = (1024, 2048, 4096, 8192)
MOVES = ((256, "plain"), (512, "plain"), (256, "evict_first"), (512, "evict_first"))
"""Threads and hint of the copies that replace a side if memory is the nearer limit."""
SEED = 7


def is_arithmetic(case: Case) -> bool:
    """Whether arithmetic, and not memory, limits a case."""
    operator = operators.get(case.operator)
    return operator.ideal_flops(case) >= BALANCE * operator.ideal_bytes(case)


def moves_streams(case: Case, is_cuda: bool) -> bool:
    """Whether the roof moves a file's streams: where arithmetic does not limit the case, and on a CPU."""
    return operators.of_file(case.operator) is not None and not (is_cuda and is_arithmetic(case))


def height(case: Case, side: int) -> int:
    """Rows of a (rows, side) factor whose product with (side, side) takes the flops of the case."""
    return max(1, round(operators.get(case.operator).ideal_flops(case) / (2 * side * side)))


def fitting(case: Case, most: int) -> int:
    """The largest side up to `most` that leaves as many rows as columns, else the smallest."""
    return max((side for side in SIDES if side <= most and height(case, side) >= side), default=SIDES[0])


def factors(rows: int, side: int, dtype: Any, device: Any) -> tuple[Any, Any]:
    """(rows, side) and (side, side) normals, the same at every call."""
    import torch

    generator = torch.Generator(device=device).manual_seed(SEED)
    shapes = ((rows, side), (side, side))
    a, b = (torch.randn(shape, generator=generator, device=device, dtype=dtype) for shape in shapes)
    return a, b


@implementation(operator="roofline", requires=["cuda>=sm_80", "triton"], params={"side": [1024, 2048, 4096, 8192]})
def roofline(case: Case, side: int) -> Callable[..., Any]:
    """launch(*inputs) -> the product, (rows, side), or else copies of q and k, or what `_any` moves.

    side  the largest; a smaller one is taken if the product would have fewer rows than columns. Raises Unsupported for views.
    """
    import torch

    if moves_streams(case, True):
        return _any.launcher(case, *MOVES[SIDES.index(side)])
    if not is_arithmetic(case):
        return moved(case, *MOVES[SIDES.index(side)])
    side = fitting(case, side)
    a, b = factors(height(case, side), side, getattr(torch, case.dtype), torch.device("cuda", torch.cuda.current_device()))
    return lambda *inputs: torch.mm(a, b)


def moved(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(q, k, v) -> copies of q and k; raises Unsupported for views."""
    keys = keys_of(case)
    if case.layout not in ("contiguous", f"keys-{keys}"):
        raise Unsupported(f"the roof moves contiguous memory, not the layout {case.layout}")
    shapes = (case.shape, (*case.shape[:2], keys, case.columns))
    cases = (replace(case, operator="softmax", shape=shape, layout="contiguous") for shape in shapes)
    one, other = (_any.launcher(each, threads, hint) for each in cases)
    return lambda q, k, v: (one(q), other(k))


def fault(inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> str:
    """What is wrong with a launch's outputs, or "": copies bit for bit, a product by its first and last rows in float64."""
    import torch

    if len(outputs) == 2:
        return "" if all(map(torch.equal, outputs, inputs)) else "a copy differs from its source"
    if len(outputs) != 1 or outputs[0].dim() != 2:
        return f"the roof wrote {len(outputs)} outputs where roofline has a product, or two copies"
    (y,) = outputs
    rows, side = y.shape
    a, b = factors(rows, side, y.dtype, y.device)
    for row in (0, -1):
        right = a[row].double() @ b.double()
        # A rounding of the product, and of sums in float32 on the way.
        allowed = torch.finfo(y.dtype).eps * right.abs() + 2.0**-16 * (a[row].double().abs() @ b.double().abs())
        if bool(((y[row].double() - right).abs() > allowed).any()):
            return f"row {row} is not the product's"
    return ""
