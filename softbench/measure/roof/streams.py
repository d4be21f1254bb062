"""The roofs that only move memory, by the streams that they read and write: one kernel, of `_any.launcher`.

For one read and one write this is the best of many Triton forms of a copy at every size that was tried.
"""

from collections.abc import Callable, Iterator
from typing import Any

from softbench.contract import implementation
from softbench.model import Case

from . import _any


@implementation(
    operator="copy", requires=["cuda>=sm_80", "triton"], params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]}
)
def copy(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(x, ...) -> y with the bytes of x."""
    return _any.launcher(case, threads, hint)


@copy.cubins
def copy_cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    return _any.cubins(case, threads, hint)


@implementation(
    operator="streams", requires=["cuda>=sm_80", "triton"], params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]}
)
def streams(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(*inputs) -> all streams of an operator."""
    return _any.launcher(case, threads, hint)


@streams.cubins
def streams_cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    return _any.cubins(case, threads, hint)
