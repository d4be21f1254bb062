"""rms_norm and layer_norm on the CuTe kernels, as functions of torch tensors; otherwise as `_functions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, library

from softbench import LAYER_EPS, RMS_EPS

from . import _launch
from ._functions import observed, require, served, widened

_table: dict[tuple[Any, ...], Callable[..., None] | None] = {}


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    eps: float = RMS_EPS,
) -> Tensor | tuple[Tensor, Tensor]:
    """t / sqrt(mean(t^2) + eps) * weight + bias along the last dimension, with t = x, or t = x + residual.

    x, residual   (..., columns) float16, bfloat16, float32 or float64, on a CUDA device, of any strides: rows that are
                  evenly spaced and whose elements are neighbours are read where they are, anything else is copied
    weight, bias  (columns,) in the dtype of x or float32
    eps           is compiled into the kernel

    Returns y, contiguous and in the dtype of x; with a residual (y, t rounded to that dtype). Arithmetic is float32,
    float64 for float64. Differentiable in all tensors, twice too: the backward is a composition of torch's operators in
    float32, which computes the statistics anew from x, or from t as it was rounded. Captured by CUDA graphs; traced by
    torch.compile(fullgraph=True). Raises ValueError for a tensor that is on no CUDA device and for shapes that do not
    fit, TypeError for other dtypes.
    """
    return _norm(x, weight, bias, residual, False, eps)


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    eps: float = LAYER_EPS,
) -> Tensor | tuple[Tensor, Tensor]:
    """(t - mean(t)) / sqrt(variance(t) + eps) * weight + bias along the last dimension, with t = x, or t = x + residual.

    The variance is that over all columns, in a second pass. Everything else is as in `rms_norm`.
    """
    return _norm(x, weight, bias, residual, True, eps)


def _norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, layer: bool, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    taken = (x, weight, bias, residual)
    if observed(x):
        outputs = norm_op(*taken, layer, eps)
    elif torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in taken):
        outputs = _Norm.apply(*taken, layer, eps)
    else:
        outputs = forward(*taken, layer, eps)
    return outputs[0] if residual is None else (outputs[0], outputs[1])


def checked(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None) -> None:
    """Raises as `rms_norm` says."""
    require(x, "norms take")
    if x.dim() == 0:
        raise ValueError("a norm needs a dimension to go along")
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is None:
            continue
        if vector.shape != x.shape[-1:] or vector.device != x.device:
            raise ValueError(f"{name} is {tuple(vector.shape)} on {vector.device}, not ({x.shape[-1]},) on {x.device}")
        if vector.dtype not in (x.dtype, torch.float32):
            raise TypeError(f"{name} is {vector.dtype}, neither {x.dtype} nor torch.float32")
    if residual is None:
        return
    if residual.shape != x.shape or residual.device != x.device:
        raise ValueError(f"residual is {tuple(residual.shape)} on {residual.device}, x {tuple(x.shape)} on {x.device}")
    if residual.dtype != x.dtype:
        raise TypeError(f"residual is {residual.dtype}, x {x.dtype}")


def forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    layer: bool,
    eps: float,
    statistics: bool = False,
) -> list[Tensor]:
    """[y], and x + residual where there is a residual, without autograd.

    statistics  then rstd, and of a LayerNorm the mean, (rows,) float32 (float64 for float64)
    """
    checked(x, weight, bias, residual)
    columns = x.shape[-1]
    rows = x.numel() // columns if columns else x.shape[:-1].numel()
    row_dtype = widened(x.dtype)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = None if residual is None else torch.empty_like(y)
    rstd = torch.empty(rows, dtype=row_dtype, device=x.device) if statistics else None
    mean = torch.empty_like(rstd) if rstd is not None and layer else None
    if x.numel():
        launch = _launch_of((x, weight, bias, residual, y, total, rstd, mean), layer, eps)
        launch(x, weight, bias, residual, y, total, rstd, mean)
    return [t for t in (y, total, rstd, mean) if t is not None]


def _launch_of(tensors: tuple[Tensor | None, ...], layer: bool, eps: float) -> Callable[..., None]:
    """A launch of these tensors in the shapes that `forward` has them in."""
    x = tensors[0]
    columns, dtypes = x.shape[-1], tuple(None if t is None else t.dtype for t in tensors)
    key = (columns, dtypes, layer, eps, x.device)
    try:
        found = _table[key]
    except KeyError:
        found = _table[key] = served(_rows, columns, x.dtype, dtypes, layer, eps, x.device)
    if found is None:
        return lambda *tensors: compose(*tensors, layer=layer, eps=eps)

    def launch(*tensors: Tensor | None) -> None:
        found(
            *(
                t if t is None else t.contiguous() if i in (1, 2) else t if i > 5 else _launch.as_matrix(t, columns)
                for i, t in enumerate(tensors)
            )
        )

    return launch


def _rows(columns: int, dtype: torch.dtype, dtypes: Any, layer: bool, eps: float, device: Any) -> Callable[..., None]:
    return _launch.norm_rows(columns, dtypes, layer, eps, device)


def compose(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    y: Tensor,
    total: Tensor | None,
    rstd: Tensor | None,
    mean: Tensor | None,
    *,
    layer: bool,
    eps: float,
) -> None:
    """The norm from torch's operators, where no kernel serves: into y and those of the others that are not None."""
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
    """(mean, rstd) along the last dimension, which is kept; for RMSNorm the mean is 0."""
    centre = t.mean(-1, keepdim=True) if layer else t.new_zeros(())
    return centre, (t - centre).square().mean(-1, keepdim=True).add(eps).rsqrt()


def gradients(dy: Tensor, t: Tensor, weight: Tensor | None, layer: bool, eps: float) -> tuple[Tensor, Tensor, Tensor]:
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
    columns = t.shape[-1:]
    return (
        of_t * scale,
        (dy * normal).sum(outer).view(columns) if outer else dy * normal,
        dy.sum(outer) if outer else dy,
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    x, weight, bias, residual, ctx.layer, ctx.eps = inputs
    ctx.dtypes = [None if t is None else t.dtype for t in (x, weight, bias, residual)]
    ctx.save_for_backward(x if residual is None else output[1], weight)


def _gradients(ctx: Any, dy: Tensor | None, of_total: Tensor | None) -> tuple[Any, ...]:
    """What autograd wants for the six inputs of a norm."""
    t, weight = ctx.saved_tensors
    dy = torch.zeros_like(t) if dy is None else dy
    of_t, of_weight, of_bias = gradients(dy, t, weight, ctx.layer, ctx.eps)
    if of_total is not None:
        of_t = of_t + of_total
    wanted = zip((of_t, of_weight, of_bias, of_t), ctx.dtypes, strict=True)
    return (*(None if dtype is None else gradient.to(dtype) for gradient, dtype in wanted), None, None)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        outputs = forward(*inputs)
        _setup(ctx, inputs, outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, of_total: Tensor | None = None) -> tuple[Any, ...]:
        return _gradients(ctx, dy, of_total)


@library.custom_op("softbench::norm", mutates_args=())
def norm_op(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, layer: bool, eps: float
) -> list[Tensor]:
    return forward(x, weight, bias, residual, layer, eps)


@norm_op.register_fake
def _(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, layer: bool, eps: float
) -> list[Tensor]:
    checked(x, weight, bias, residual)
    return [torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(1 if residual is None else 2)]


norm_op.register_autograd(
    lambda ctx, grads: _gradients(ctx, grads[0], grads[1] if len(grads) > 1 else None),
    setup_context=_setup,
)
