"""softmax and its gradient by torch's operators: where no kernel serves, and where torch follows what is computed."""

import torch
from torch import Tensor
from torch.autograd import forward_ad

_batches = torch._C._functorch.is_batchedtensor, torch._C._functorch.is_legacy_batchedtensor


def followed(*tensors: Tensor | None) -> bool:
    """Whether a gradient has tangents, or is many at a time, by vmap or `is_grads_batched`: no kernel computes it."""
    batches = (t is not None and any(is_batch(t) for is_batch in _batches) for t in tensors)
    return forward_ad._current_level >= 0 or any(batches)


def widened(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the arithmetic."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def compose(x: Tensor, out: torch.dtype) -> Tensor:
    """softmax along the last dimension from torch's elementwise operators and reductions, where no kernel serves.

    Not torch.softmax: that is wrong for float64 rows of an odd number of columns between 513 and 1023 (pytorch #147284).
    """
    wide = x.to(widened(x.dtype))
    powers = (wide - wide.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True)).to(out).contiguous()


def compose_backward(dy: Tensor, y: Tensor, dim: int = -1) -> Tensor:
    """softmax_backward, likewise."""
    wide, share = dy.to(widened(y.dtype)), y.to(widened(y.dtype))
    return ((wide - (wide * share).sum(dim, keepdim=True)) * share).contiguous()
