"""Modes of torch that an implementation has left on: they see every later call of torch, also the harness's.

With a mode an output could be computed only while it is compared.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from softbench.measure.incorrect import Incorrect


def left_on() -> str:
    """Which mode is on in this thread, in words; "" if none. Call it once before any implementation is imported."""
    for word, depth, at in _stacks():
        if count := depth():
            name = getattr(type(at(count - 1)), "__name__", "a mode")
            return f"a mode was left on: {name}, a {word} mode of torch, which sees what the harness calls"
    return ""


def refusing(launch: Callable[..., Any]) -> Callable[..., Any]:
    """The launch, which then raises Incorrect if it leaves a mode on, before anything else calls torch."""

    def watched(*inputs: Any) -> Any:
        returned = launch(*inputs)
        if wrong := left_on():
            raise Incorrect(wrong)
        return returned

    return watched


@cache
def _stacks() -> tuple[tuple[str, Callable[[], int], Callable[[int], Any]], ...]:
    """For each kind of mode its name, how many are on, and the one at a depth; taken from torch once."""
    from torch import _C

    return (
        ("dispatch", _C._len_torch_dispatch_stack, _C._get_dispatch_stack_at),
        ("function", _C._len_torch_function_stack, _C._get_function_stack_at),
    )
