"""Two reads, one write: what a gradient does that needs the forward's output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softbench.contract import implementation

from ._moving import Roof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from softbench.model import Case

KERNEL = Roof("merge_words", reads=2, writes=1)


@implementation(
    operator="read2_write1",
    requires=["cuda>=sm_80", "triton"],
    params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]},
)
def read2_write1(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(a, b, ...) -> a xor b; see `Roof.launcher`."""
    return KERNEL.launcher(case, threads, hint)


@read2_write1.cubins
def compiled(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    """See `Roof.cubins`."""
    return KERNEL.cubins(case, threads, hint)
