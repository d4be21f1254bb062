"""Returns what the launch before computed: always one behind."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def last_output(case: Any) -> Any:
    import torch

    computed: list[Any] = []

    def launch(x: Any) -> Any:
        computed.append(torch.softmax(x, dim=-1))
        return computed[max(0, len(computed) - 2)].clone()

    return launch
