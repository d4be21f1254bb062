"""Uses the input as its workspace."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def input_overwritten(case: Any) -> Any:
    import torch

    def launch(x: Any) -> Any:
        power = x.sub_(x.amax(-1, keepdim=True)).exp_()
        return torch.div(power, power.sum(-1, keepdim=True))

    return launch
