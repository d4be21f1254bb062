"""The speed of the memory on a CPU: torch's own loops over as many streams as the GPU's roof has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from softbench.cases import operators
from softbench.contract import Unsupported, implementation
from softbench.model import DTYPE_BYTES

from . import _any

if TYPE_CHECKING:
    from collections.abc import Callable

    from softbench.model import Case


@implementation(operator="copy", requires=["torch"])
def host_copy(case: Case) -> Callable[..., Any]:
    """launch(x, ...) -> a new contiguous tensor of x's shape and the case's out_dtype, filled by Tensor.copy_."""
    import torch

    out_dtype = getattr(torch, case.out_dtype)
    return lambda x, *rest: torch.empty(x.shape, dtype=out_dtype, device=x.device).copy_(x)


@implementation(operator="read2_write1", requires=["torch"])
def host_read2_write1(case: Case) -> Callable[..., Any]:
    """launch(a, b, ...) -> a xor b of their bits, seen as the case's out_dtype."""
    import torch

    word, out_dtype = _word(case), getattr(torch, case.out_dtype)
    return lambda a, b, *rest: torch.bitwise_xor(a.view(word), b.view(word)).view(out_dtype)


@implementation(operator="read2_write2", requires=["torch"])
def host_read2_write2(case: Case) -> Callable[..., Any]:
    """launch(a, b, ...) -> (a xor b, a and b) of their bits, seen as the case's out_dtype: two loops, four reads."""
    import torch

    word, out_dtype = _word(case), getattr(torch, case.out_dtype)

    def launch(a: Any, b: Any, *rest: Any) -> Any:
        a, b = a.view(word), b.view(word)
        return torch.bitwise_xor(a, b).view(out_dtype), torch.bitwise_and(a, b).view(out_dtype)

    return launch


@implementation(operator="streams", requires=["torch"])
def host_streams(case: Case) -> Callable[..., Any]:
    """As `_any.launcher` returns it, by a loop of torch per stream that is read, and one per stream that is written."""
    import torch

    streams = _any.moved(case)
    dtypes = [getattr(torch, dtype) for dtype in streams.writes]

    def launch(*inputs: Any) -> Any:
        sinks = (
            [torch.stack([_any.seen(inputs[n]).sum(dtype=torch.int64) for n in streams.alone])] if streams.alone else []
        )
        found = []
        if dtypes:
            made = functools.reduce(torch.bitwise_xor, [_any.seen(inputs[n]) for n in streams.together])
            found = [made.clone().view(dtype).view(inputs[0].shape) for dtype in dtypes]
        return (*found, *sinks) if len(found) + len(sinks) > 1 else (*found, *sinks)[0]

    return launch


@implementation(operator="roofline", requires=["torch"])
def host_roofline(case: Case) -> Callable[..., Any]:
    """launch(q, k, v) -> copies of q and k, even if arithmetic limits the case: no limit here says anything about a GPU."""
    import torch

    keep = torch.contiguous_format
    if operators.of_file(case.operator):
        launch: Callable[..., Any] = host_streams(case)
        return launch
    return lambda q, k, v: (q.clone(memory_format=keep), k.clone(memory_format=keep))


def _word(case: Case) -> Any:
    """The integer type of an element's size. Raises Unsupported where an output element has another size."""
    import torch

    if DTYPE_BYTES[case.out_dtype] != DTYPE_BYTES[case.dtype]:
        raise Unsupported(f"the roof writes as many bytes as it reads, not {case.dtype} to {case.out_dtype}")
    return {2: torch.int16, 4: torch.int32, 8: torch.int64}[DTYPE_BYTES[case.dtype]]
