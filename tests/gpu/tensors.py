"""Tensors on the GPU, and what the softmax of one is held to."""

from typing import Any

import torch
from torch import Tensor


def randn(*shape: int, dtype: torch.dtype = torch.float16, **more: Any) -> Tensor:
    """Drawn in float32, or in what `more` says, and rounded."""
    return torch.randn(shape, device="cuda", **more).to(dtype)


def close(got: Tensor, x: Tensor, dim: int = -1, slack: float = 0.0) -> None:
    exact = torch.softmax(x.double().cpu(), dim)
    kind = torch.finfo(got.dtype)
    torch.testing.assert_close(got.double().cpu(), exact, rtol=2 * kind.eps + slack, atol=kind.tiny)
