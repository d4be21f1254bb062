"""The roof: kernels that show what the memory, or the arithmetic, can do, declared like implementations and timed like entrants.

`copy` moves one stream of the case's size each way, `streams` whatever else an operator reads and writes: with two reads per write
an H200 reaches 1.8 % more than with one. `roofline` is for operators that arithmetic may limit. Each set has one factory for GPUs,
whose parameters span ways to launch, and one for machines without a GPU.
"""

from pathlib import Path
from typing import Any

from softbench.cases import registry
from softbench.cases.operators.outputs import as_tuple
from softbench.measure.roof import _any, roofline
from softbench.model import Case, Tensor, Variant

SETS = ("copy", "streams", "roofline")
"""Each has a factory of this name for a GPU, in `streams.py` or `roofline.py`, and `host_NAME` in `host.py`."""


def variants(name: str, kind: str) -> tuple[Variant, ...]:
    """The kernels of a set for a kind of device ("cuda" or "cpu"), read like any implementation's declaration."""
    function = name if kind == "cuda" else f"host_{name}"
    found = registry.find([Path(__file__).parent], operators=SETS)
    return tuple(v for v in found if v.implementation == function)


def verify(name: str, inputs: tuple[Tensor, ...], outputs: Any, case: Case) -> str:
    """What is wrong with a roof kernel's outputs, or "": what is moved, every bit of it follows from the inputs' bits."""
    if name not in SETS:
        raise ValueError(f"no check for the roof set {name!r}; choose from {', '.join(SETS)}")
    returned = as_tuple(outputs)
    is_folded = inputs[0].is_cuda
    if name == "roofline" and not roofline.moves_streams(case, is_folded):
        return roofline.fault(inputs, returned)
    return _any.fault(inputs, returned, case, is_folded=is_folded)
