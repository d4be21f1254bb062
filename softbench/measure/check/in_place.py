"""Launches that overwrite inputs, as their operator declares: they run on copies, so that what was given can be compared with."""

from collections.abc import Callable, Sequence
from typing import Any

from softbench.cases import operators
from softbench.cases.operators.changes import unseen
from softbench.cases.operators.inputs import damage, words_of
from softbench.cases.operators.outputs import as_tuple, lazy
from softbench.measure.check import judging
from softbench.measure.incorrect import Incorrect
from softbench.measure.sealed.tensors import copy_of
from softbench.model import Case, Tensor

Tensors = Sequence["Tensor"]


def apart(case: Case, launch: Callable[..., Any]) -> Callable[..., Any]:
    """The launch; if it overwrites inputs, one that runs it on copies of them in the same memory each time, and returns copies.

    That one raises Incorrect as `taken_out`, and leaves no canaries to be judged.
    """
    if not operators.overwritten(case.operator):
        return launch
    used: list[Tensor] = []

    def run(*inputs: Tensor) -> Any:
        used[:] = used or map(copy_of, inputs)
        for x, given in zip(used, inputs, strict=True):
            words_of(x).copy_(words_of(given))
        return taken_out(case, inputs, used, launch(*used))

    return run


def taken_out(case: Case, given: Tensors, used: Tensors, returned: Any) -> Any:
    """What a launch on `used` returned, with copies of what it overwrote; then `used` is again as what was `given`.

    Raises Incorrect if it returned another tensor than such an input, or changed other bytes of its inputs.
    """
    import torch

    if wrong := elsewhere(case, [used], [returned]):
        raise Incorrect(wrong)
    outputs = list(as_tuple(returned))
    for number, place in operators.overwritten(case.operator).items():
        if number < len(outputs):
            outputs[number] = outputs[number].clone(memory_format=torch.contiguous_format)
        unseen((used[place],))[0].copy_(given[place])
    if wrong := judging.first([damage(x, kept) for x, kept in zip(used, given, strict=True)], "input"):
        raise Incorrect(wrong)
    return tuple(outputs) if len(outputs) > 1 else outputs[0]


def elsewhere(case: Case, inputs: Sequence[Tensors], calls: Sequence[Any]) -> str:
    """What is wrong if a call returned another tensor than the input that it must overwrite; calls take the inputs in turn."""
    for number, place in operators.overwritten(case.operator).items():
        for at, returned in enumerate(calls):
            outputs = as_tuple(returned)
            if number < len(outputs) and not _is(outputs[number], inputs[at % len(inputs)][place]):
                what = f"not in the memory of input {place}, which it must overwrite; write there, and return that tensor"
                return f"output {number}: {what}" if len(outputs) > 1 else what
    return ""


def _is(y: Any, x: Tensor) -> bool:
    """Whether y, of any type, lies as x does."""
    import torch

    is_plain = issubclass(type(y), torch.Tensor) and not lazy(y)
    return is_plain and (y.data_ptr(), y.stride()) == (x.data_ptr(), x.stride())
