"""rms_norm and layer_norm on the CuTe kernels, as functions of torch tensors; otherwise as `_functions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _launch
from ._functions import observed, operator, require, served, widened

Given = Tensor | None


def norm(
    x: Tensor, weight: Given, bias: Given, residual: Given, layer: bool, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    """`softbench.kernels.layer_norm` or `rms_norm` of CUDA tensors, weight and bias (columns,) in the dtype of x or float32.

    Returns y, or (y, x + residual), contiguous and in the dtype of x. The backward uses torch's operators and computes the
    statistics again from x, or from the rounded sum. Shapes are checked there. Raises ValueError for a tensor that is not on a
    CUDA device, TypeError for a dtype of x that is not served.
    """
    inputs = (x, weight, bias, residual)
    if observed(x):
        outputs = norm_op(*inputs, layer, eps)
    elif torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        outputs = _Norm.apply(*inputs, layer, eps)
    else:
        outputs = forward(*inputs, layer, eps)
    return outputs[0] if residual is None else (outputs[0], outputs[1])


def forward(
    x: Tensor, weight: Given, bias: Given, residual: Given, layer: bool, eps: float, statistics: bool = False
) -> list[Tensor]:
    """[y], and x + residual if there is a residual, without autograd.

    statistics  also rstd and, for LayerNorm, the mean, (rows,) float32 (float64 for float64)
    """
    require(x, "norms take")
    columns = x.shape[-1]
    rows = x.numel() // columns if columns else x.shape[:-1].numel()
    row_dtype = widened(x.dtype)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = None if residual is None else torch.empty_like(y)
    rstd = torch.empty(rows, dtype=row_dtype, device=x.device) if statistics else None
    mean = torch.empty_like(rstd) if rstd is not None and layer else None
    if x.numel():
        _run((x, weight, bias, residual, y, total, rstd, mean), layer, eps)
    return [t for t in (y, total, rstd, mean) if t is not None]


def _run(tensors: tuple[Given, ...], layer: bool, eps: float) -> None:
    """Compute the norm of these tensors, in the shapes that `forward` has them in."""
    x, weight, bias, *matrices, rstd, mean = tensors
    columns, dtypes = x.shape[-1], tuple(None if t is None else t.dtype for t in tensors)
    launch = served(_launch.norm_rows, columns, dtypes, layer, eps, x.device)
    if launch is None:
        return compose(*tensors, layer=layer, eps=eps)
    dense = (None if t is None else t.contiguous() for t in (weight, bias))
    matrices = (None if t is None else _launch.as_matrix(t, columns) for t in matrices)
    return launch(_launch.as_matrix(x, columns), *dense, *matrices, rstd, mean)


def compose(
    x: Tensor, weight: Given, bias: Given, residual: Given, y: Tensor, total: Given, rstd: Given, mean: Given,
    *, layer: bool, eps: float,
) -> None:  # fmt: skip
    """The norm from torch's operators, where no kernel serves: into y and the other outputs that are not None."""
    t = x.to(widened(x.dtype))
    if residual is not None and total is not None:
        t = t + residual
        total.copy_(t)
    centre, scale = _statistics(t, layer, eps)
    values = (t - centre if layer else t) * scale
    if weight is not None:
        values = values * weight
    y.copy_(values if bias is None else values + bias)
    if rstd is not None:
        rstd.copy_(scale.reshape(-1))
    if mean is not None:
        mean.copy_(centre.reshape(-1))


def _statistics(t: Tensor, layer: bool, eps: float) -> tuple[Tensor, Tensor]:
    """(mean, rstd) along the last dimension, which stays; for RMSNorm the mean is 0."""
    centre = t.mean(-1, keepdim=True) if layer else t.new_zeros(())
    return centre, (t - centre).square().mean(-1, keepdim=True).add(eps).rsqrt()


def gradients(dy: Tensor, t: Tensor, weight: Given, layer: bool, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of t, weight and bias for dy, in float32 (float64 for float64), from torch's operators."""
    wide = widened(t.dtype)
    t, dy = t.to(wide), dy.to(wide)
    centre, scale = _statistics(t, layer, eps)
    normal = (t - centre) * scale
    g = dy if weight is None else dy * weight.to(wide)
    of_t = g - normal * (g * normal).mean(-1, keepdim=True)
    if layer:
        of_t = of_t - g.mean(-1, keepdim=True)
    outer = tuple(range(t.dim() - 1))
    of_weight, of_bias = ((dy * normal).sum(outer), dy.sum(outer)) if outer else (dy * normal, dy)
    return of_t * scale, of_weight, of_bias


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    x, weight, bias, residual, ctx.layer, ctx.eps = inputs
    ctx.dtypes = [None if t is None else t.dtype for t in (x, weight, bias, residual)]
    ctx.save_for_backward(x if residual is None else output[1], weight)


def _gradients(ctx: Any, *of_outputs: Any) -> tuple[Any, ...]:
    """The gradients of the six inputs of a norm; an operator has those of its outputs in a list."""
    dy, of_total, *_ = (*(of_outputs[0] if isinstance(of_outputs[0], list) else of_outputs), None)
    t, weight = ctx.saved_tensors
    dy = torch.zeros_like(t) if dy is None else dy
    of_t, of_weight, of_bias = gradients(dy, t, weight, ctx.layer, ctx.eps)
    if of_total is not None:
        of_t = of_t + of_total
    wanted = zip((of_t, of_weight, of_bias, of_t), ctx.dtypes, strict=True)
    return (*(None if dtype is None else gradient.to(dtype) for gradient, dtype in wanted), None, None)


def _all(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, layer: bool, eps: float
) -> list[Tensor]:
    return forward(x, weight, bias, residual, layer, eps)


def _fake(x: Tensor, weight: Given, bias: Given, residual: Given, layer: bool, eps: float) -> list[Tensor]:
    require(x, "norms take")
    return [torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(1 if residual is None else 2)]


_Norm, norm_op = operator("norm", _all, _fake, _setup, _gradients)
