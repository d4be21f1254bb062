"""Keeps the sum of a row in bfloat16: no element is off by more than an ulp of its dtype."""

from __future__ import annotations

from typing import Any

from softbench import Unsupported, implementation


@implementation(operator="softmax", requires=["torch"])
def low_precision_sum(case: Any) -> Any:
    if case.out_dtype != "bfloat16":
        raise Unsupported("only where it is hard to see, in bfloat16")

    def launch(x: Any) -> Any:
        power = (x.float() - x.float().amax(-1, keepdim=True)).exp()
        return (power / power.sum(-1, keepdim=True).bfloat16().float()).bfloat16()

    return launch
