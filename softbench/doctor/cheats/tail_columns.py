"""Leaves the last columns as they were: the loop has no masked end."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def tail_columns(case: Any) -> Any:
    import torch

    def launch(x: Any) -> Any:
        y, whole = torch.empty_like(x), case.columns - 1 - (case.columns - 1) % 64
        y[:, :whole] = torch.softmax(x, dim=-1)[:, :whole]
        return y

    return launch
