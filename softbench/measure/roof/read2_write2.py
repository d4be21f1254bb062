"""Two reads, two writes: what a normalisation does that adds a residual and hands the sum on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softbench.contract import implementation

from ._moving import Roof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from softbench.model import Case

KERNEL = Roof("cross_words", reads=2, writes=2)


@implementation(
    operator="read2_write2",
    requires=["cuda>=sm_80", "triton"],
    params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]},
)
def read2_write2(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(a, b, ...) -> (a xor b, a and b); see `Roof.launcher`."""
    return KERNEL.launcher(case, threads, hint)


@read2_write2.cubins
def compiled(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    """See `Roof.cubins`."""
    return KERNEL.cubins(case, threads, hint)
