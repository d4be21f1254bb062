"""One read, one write: one 16-byte vector a thread, the best of many Triton forms of a copy at every size that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softbench.contract import implementation

from ._moving import Roof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from softbench.model import Case

KERNEL = Roof("copy_words", reads=1, writes=1)


@implementation(
    operator="copy",
    requires=["cuda>=sm_80", "triton"],
    params={"threads": [128, 256, 512], "hint": ["plain", "evict_first"]},
)
def copy(case: Case, threads: int, hint: str) -> Callable[..., Any]:
    """launch(x, ...) -> y with the bytes of x; see `Roof.launcher`."""
    return KERNEL.launcher(case, threads, hint)


@copy.cubins
def compiled(case: Case, threads: int, hint: str) -> Iterator[tuple[str, bytes]]:
    """See `Roof.cubins`."""
    return KERNEL.cubins(case, threads, hint)
