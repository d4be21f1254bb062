"""Modes of torch that somebody has left on: they see every later call of torch, the harness's own among them.

An output that is not computed yet may so be computed while it is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def left_on() -> str:
    """Which mode is on in this thread, in words; "" where none is. Call it once before any implementation is imported."""
    for word, depth, at in _stacks():
        if count := depth():
            name = getattr(type(at(count - 1)), "__name__", "a mode")
            return f"a mode was left on: {name}, a {word} mode of torch, which sees what the harness calls"
    return ""


@cache
def _stacks() -> tuple[tuple[str, Callable[[], int], Callable[[int], Any]], ...]:
    """What each kind of mode is called, how many are on, and the one at a depth; taken from torch once."""
    from torch import _C

    return (
        ("dispatch", _C._len_torch_dispatch_stack, _C._get_dispatch_stack_at),
        ("function", _C._len_torch_function_stack, _C._get_function_stack_at),
    )
