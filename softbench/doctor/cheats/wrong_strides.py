"""Returns rows with gaps between them, as its tiles are wider than the rows."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def wrong_strides(case: Any) -> Any:
    import torch

    def launch(x: Any) -> Any:
        tiles = x.new_empty(x.shape[0], x.shape[1] + 24)
        return tiles[:, : x.shape[1]].copy_(torch.softmax(x, dim=-1))

    return launch
