"""Gives the same input another output every time, a thousandth apart, as a race does."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def nondeterministic(case: Any) -> Any:
    import torch

    return lambda x: torch.softmax(x, dim=-1) * (1 + 1e-3 * torch.randn_like(x))
