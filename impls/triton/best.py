"""The fastest plan per case, from the ideas of ladder.py: chosen by measuring (_tuning.py), remembered on disk.

here -> _plans.py          `candidates`, the plans that are measured, and `best`, the plan without measuring
     -> _tile.py, _pieces.py, _chunks.py, _split.py; _columns.py for rows side by side in memory
"""

from softbench import implementation, parse_layout

from . import _columns, _launch, _plans, _tuning


@implementation(operator=["softmax", "log_softmax"], requires=["cuda>=sm_80", "triton"])
def triton_best(case):
    """Autotuned: a row read once or twice, several short rows per program, few long rows split; launches overlap."""
    rows = _launch.rung(case, _tuning.choose)
    return _columns.prepare(case, rows) if _is_across(case) else rows


def _is_across(case):
    return parse_layout(case.layout).transposed and case.elements > 0


@triton_best.cubins
def best_cubins(case):
    return _columns.cubins(case) if _is_across(case) else _launch.cubins(case, _plans.best)
