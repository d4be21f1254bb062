"""The fastest of what the ladder has taught: chosen by measuring, remembered on disk."""

from __future__ import annotations

from softbench import implementation

from . import _launch, _plans, _tuning


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def triton_best(case):
    """Autotuned: a row read once or twice, several short rows a program, few long rows split; launches overlap."""
    return _launch.rung(case, _tuning.choose)


@triton_best.cubins
def best_cubins(case):
    return _launch.cubins(case, _plans.best)
