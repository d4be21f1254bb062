"""One honest softmax under two names."""

from typing import Any

from softbench import implementation


@implementation(operator="softmax")
def twin_a(case: Any) -> Any:
    return lambda x: x.softmax(-1)


@implementation(operator="softmax")
def twin_b(case: Any) -> Any:
    return lambda x: x.softmax(-1)
