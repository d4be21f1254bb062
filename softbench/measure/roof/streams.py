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
    return _any.launcher("copy", case, threads, hint)


@copy.cubins
def copy_cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    return _any.cubins("copy", case, threads, hint)


@implementation(
    operator="read2_write1",
    requires=["cuda>=sm_80", "triton"],
    params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]},
)
def read2_write1(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(a, b, ...) -> a xor b, as a gradient reads that needs the forward's output."""
    return _any.launcher("read2_write1", case, threads, hint)


@read2_write1.cubins
def read2_write1_cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    return _any.cubins("read2_write1", case, threads, hint)


@implementation(
    operator="read2_write2",
    requires=["cuda>=sm_80", "triton"],
    params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]},
)
def read2_write2(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(a, b, ...) -> a xor b, twice, as a norm that adds a residual and returns the sum."""
    return _any.launcher("read2_write2", case, threads, hint)


@read2_write2.cubins
def read2_write2_cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    return _any.cubins("read2_write2", case, threads, hint)


@implementation(
    operator="streams", requires=["cuda>=sm_80", "triton"], params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]}
)
def streams(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """Other streams of the case's size of an operator of a file, whatever they are."""
    return _any.launcher("streams", case, threads, hint)


@streams.cubins
def streams_cubins(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    return _any.cubins("streams", case, threads, hint)
