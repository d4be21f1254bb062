"""The fastest plan per case, from the ideas of ladder.py: chosen by measuring (_tuning.py), remembered on disk.

here -> _plans.py          `candidates`, the plans that are measured, and `best`, the plan without measuring
     -> _tile.py, _pieces.py, _chunks.py, _split.py
"""

from __future__ import annotations

from softbench import implementation

from . import _launch, _plans, _tuning


@implementation(operator=["softmax", "log_softmax"], requires=["cuda>=sm_80", "triton"])
def triton_best(case):
    """Autotuned: a row read once or twice, several short rows per program, few long rows split; launches overlap."""
    return _launch.rung(case, _tuning.choose)


@triton_best.cubins
def best_cubins(case):
    return _launch.cubins(case, _plans.best)
