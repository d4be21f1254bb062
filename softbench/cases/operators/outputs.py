"""What a launch must return, and what it returned, without calling any method that the value's class could override."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from softbench.cases.operators.inputs import reach, share
from softbench.model import DTYPE_BYTES, Tensor

STREAM_BYTES = DTYPE_BYTES | {"bool": 1, "int32": 4, "int64": 8}
"""Bytes of an element of an input or output."""


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """The outputs of a launch as a tuple. A subclass of tuple is one output: it may return other elements each time."""
    return returned if type(returned) is tuple else (returned,)


def lazy(y: Tensor) -> str:
    """Why the values of a tensor may not be in its memory; "" for a plain tensor.

    No other method is called: a subclass could compute in the methods that it overrides, while it is judged.
    """
    import torch

    if type(y) is not torch.Tensor and type(y) is not torch.nn.Parameter:  # not by ==, which a metaclass answers
        return f"a {type(y).__name__}, which may compute when it is read; return a plain torch.Tensor"
    if y.is_neg() or y.is_conj() or y._is_zerotensor():
        return "a negation, a conjugation or a zero that is not carried out; call resolve_neg() and its kin"
    return ""


@dataclass(frozen=True)
class OutputSpec:
    """Shape and dtype (a word of `STREAM_BYTES`) of one output, which may have gaps if it is an input."""

    shape: tuple[int, ...]
    dtype: str
    is_input: bool = False

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * STREAM_BYTES[self.dtype]

    def fault(self, y: Any, inputs: tuple[Tensor, ...]) -> str:
        """Why `y`, of any type, cannot be this output of a launch on `inputs`; "" if it can.

        It must be a dense tensor on the inputs' device, with its dimensions in any order, and in memory of its own.
        """
        import torch

        if issubclass(type(y), tuple):
            return f"wrong type: {type(y).__name__}, a subclass of tuple; return a plain tuple"
        if not issubclass(type(y), torch.Tensor):
            return f"wrong type: {type(y).__name__} where a tensor is expected"
        if why := lazy(y):
            return f"left lazy: {why}"
        if y.dtype is not getattr(torch, self.dtype):
            return f"wrong dtype: {str(y.dtype).removeprefix('torch.')} where {self.dtype} is expected"
        if tuple(y.shape) != self.shape:
            return f"wrong shape: {tuple(y.shape)} where {self.shape} is expected"
        if y.device != inputs[0].device:
            return f"wrong device: {y.device} where {inputs[0].device} is expected"
        if y.layout is not torch.strided:
            return f"wrong layout: {str(y.layout).removeprefix('torch.')} where a dense tensor is expected"
        if not self.is_input and not _is_dense(tuple(y.shape), y.stride()):
            return f"wrong strides: {tuple(y.stride())} for the shape {tuple(y.shape)}; an output must be dense"
        if any(share(x, y) for x in inputs):
            return "the output is a view of the input's memory"
        return ""


def overlapping(outputs: Sequence[Tensor]) -> str:
    """Which two outputs have memory in common, "" for none: one store would count for two."""
    sizes = [reach(y.shape, y.stride()) * y.element_size() for y in outputs]
    spans = sorted((y.data_ptr(), y.data_ptr() + sizes[i], i) for i, y in enumerate(outputs) if y.numel())
    found = next(((i, j) for (_, end, i), (start, _, j) in pairwise(spans) if start < end), None)
    return f"outputs {min(found)} and {max(found)} have memory in common" if found else ""


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements fill a range of memory exactly once, with the dimensions in any order."""
    step = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride != step:
            return 0 in shape
        step *= max(1, size)
    return True
