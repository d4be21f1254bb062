"""The roof: kernels that show what the memory can do, declared like implementations and timed like entrants.

An operator names its set. Each set has one file and one factory for a GPU, whose parameters span the fixed kernels,
and one for machines without.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from softbench import registry
from softbench.model import Variant

if TYPE_CHECKING:
    from torch import Tensor


class Source(NamedTuple):
    """Where a roof is declared: a file of this folder and the factory in it."""

    file: str
    function: str


SETS: dict[str, dict[str, Source]] = {
    "copy": {"cuda": Source("copy.py", "copy"), "cpu": Source("host.py", "host_copy")},
}


def variants(name: str, kind: str) -> tuple[Variant, ...]:
    """The kernels of a set for a kind of device ("cuda" or "cpu"), read like any implementation's declaration."""
    source = SETS[name][kind]
    found = registry.find([Path(__file__).parent], operators=tuple(SETS))
    return tuple(v for v in found if v.implementation == source.function)


def verify(name: str, inputs: tuple[Tensor, ...], outputs: Any) -> str:
    """What is wrong with a roof kernel's output, or "": a copy has its input's bits."""
    import torch

    if name != "copy":
        raise ValueError(f"no check for the roof set {name!r}; choose from {', '.join(SETS)}")
    source, copied = (t.contiguous().view(-1).view(torch.uint8) for t in (inputs[0], outputs))
    return "" if torch.equal(source, copied) else "the copy differs from its source"
