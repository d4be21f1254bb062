"""Leaves the last rows as they were: the grid is rounded down."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def tail_rows(case: Any) -> Any:
    import torch

    def launch(x: Any) -> Any:
        y, whole = torch.empty_like(x), case.rows - 1 - (case.rows - 1) % 8
        y[:whole] = torch.softmax(x[:whole], dim=-1)
        return y

    return launch
