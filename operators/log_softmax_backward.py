"""The gradient of log_softmax along the last dimension: dx = dy - exp(y) sum(dy), with y its output."""

import torch

from softbench import operator


@operator(
    reads={"dy": "case", "y": "case"},
    writes={"dx": "case"},
    hard={"dy": ["equal", "nan_middle", "peaked"], "y": ["peaked", "padding_inf", "shifted_1e2", "all_inf", "nan_last"]},
)
def log_softmax_backward(dy, y):
    return dy - y.exp() * dy.sum(1, keepdim=True)


@log_softmax_backward.prepare
def prepare(dy, y):
    """y as log_softmax returns it, and a gradient whose sum is not about 0, so that both terms count."""
    dy.add_(0.5)
    for part in y.split(512) if y.dim() > 1 else [y]:
        part.copy_(part.log_softmax(-1))


@log_softmax_backward.slack
def slack(unit, dx, dy, y):
    size = dy.abs().sum(1, keepdim=True)
    return unit * (dy.abs() + y.exp() * (5 + y.abs().clamp(max=1e3)) * size)


@log_softmax_backward.baseline
def torch_eager(dy, y):
    return torch.ops.aten._log_softmax_backward_data(dy, y, -1, dy.dtype)
