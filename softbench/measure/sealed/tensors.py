"""Tensors as bytes, and copies of them."""

import random

from softbench.model import Tensor

STRETCH_BYTES = 64 << 20
"""Most bytes of an input that are compared with what they were before a replay."""


def bytes_of(x: Tensor) -> Tensor:
    """The storage of a tensor as bytes."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage())


def stretch_of(x: Tensor, rng: random.Random) -> Tensor:
    """At most `STRETCH_BYTES` of some bytes."""
    start = rng.randrange(max(1, x.numel() - STRETCH_BYTES + 1))
    return x[start : start + STRETCH_BYTES]


def copy_of(y: Tensor) -> Tensor:
    """The same tensor in a storage of its own."""
    import torch

    held = torch.empty(bytes_of(y).numel(), dtype=torch.uint8, device=y.device)
    held.copy_(bytes_of(y))
    return held.view(y.dtype).as_strided(y.shape, y.stride(), y.storage_offset())
