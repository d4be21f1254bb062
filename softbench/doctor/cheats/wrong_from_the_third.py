"""Is right in the check and on the first two sets of buffers, on which timed calls are always compared, and returns zeros later."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def wrong_from_the_third(case: Any) -> Any:
    import torch

    known, sets, was_new = set[int](), [0], [False]

    def launch(x: Any) -> Any:
        is_new = x.data_ptr() not in known
        if is_new and not was_new[0]:  # those of the check and of the estimate are two sets
            known.clear()
            sets[0] += 1
        known.add(x.data_ptr())
        was_new[0] = is_new
        return torch.softmax(x, dim=-1) if sets[0] < 5 else torch.zeros_like(x)

    return launch
