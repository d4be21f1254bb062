"""Writes half of the bytes: float16 where the case asks for more."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def wrong_dtype(case: Any) -> Any:
    import torch

    return lambda x: torch.softmax(x, dim=-1).half()
