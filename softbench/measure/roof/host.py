"""The speed of the memory on a CPU: torch's own loops over as many streams as the GPU's roof has."""

import functools
from collections.abc import Callable
from typing import Any

from softbench.cases import operators
from softbench.contract import implementation
from softbench.model import Case

from . import _any
from ._any import bits


@implementation(operator="copy", requires=["torch"])
def host_copy(case: Case) -> Callable[..., Any]:
    """launch(x, ...) -> a new contiguous tensor with the bytes of x."""
    return _launcher(case)


@implementation(operator="streams", requires=["torch"])
def host_streams(case: Case) -> Callable[..., Any]:
    """launch(*inputs) -> all streams of an operator."""
    return _launcher(case)


@implementation(operator="roofline", requires=["torch"])
def host_roofline(case: Case) -> Callable[..., Any]:
    """launch(q, k, v) -> copies of q and k, even if arithmetic limits the case: no limit here says anything about a GPU."""
    import torch

    keep = torch.contiguous_format
    if operators.of_file(case.operator):
        return _launcher(case)
    return lambda q, k, v: (q.clone(memory_format=keep), k.clone(memory_format=keep))


def _launcher(case: Case) -> Callable[..., Any]:
    """As `_any.launcher` returns it, by a loop of torch per stream that is read alone, or with another, or written again."""
    import torch

    streams = _any.moved(case)
    dtypes, over = [getattr(torch, dtype) for dtype in streams.writes], dict(streams.over)

    def launch(*inputs: Any) -> Any:
        found = []
        if dtypes:
            made = functools.reduce(torch.bitwise_xor, [bits(inputs[n]) for n in streams.together])
            made = torch.bitwise_not(made, out=bits(inputs[streams.over[0][1]])) if over else made
            is_new = len(streams.together) > 1 and not over  # the last output may be it
            for n, dtype in enumerate(dtypes):
                y = _any.fitted(made, dtype.itemsize)
                if n in over:
                    y = bits(inputs[over[n]]).copy_(y)
                elif y is made and not (is_new and n == len(dtypes) - 1):
                    y = y.clone(memory_format=torch.contiguous_format)
                found.append(y.view(dtype))
        if streams.has_sink:
            read = [*(_any.words_of(inputs[n]) for n in streams.alone), *(_any.whole(inputs[n]) for n, _ in streams.beside)]
            found.append(_any.sums(read))
        return tuple(found) if len(found) > 1 else found[0]

    return launch
