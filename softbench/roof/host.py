"""The memory's speed as a CPU reaches it: torch's own copy into a new tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softbench.contract import implementation

if TYPE_CHECKING:
    from collections.abc import Callable

    from softbench.model import Case


@implementation(operator="copy", requires=["torch"])
def host_copy(case: Case) -> Callable[[Any], Any]:
    """launch(x) -> a new contiguous tensor of x's shape and the case's out_dtype, filled by Tensor.copy_."""
    import torch

    out_dtype = getattr(torch, case.out_dtype)
    return lambda x: torch.empty(x.shape, dtype=out_dtype, device=x.device).copy_(x)
