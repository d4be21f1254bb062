"""Logarithms of a softmax along the last dimension: y = x - log(sum(exp(x)))."""

import torch

from softbench import operator


@operator(
    reads={"x": "case"},
    writes={"y": "case"},
    hard={"x": ["peaked", "growing", "shifted_-1e4", "dtype_max", "causal_min", "padding_inf", "all_inf", "nan_last"]},
)
def log_softmax(x):
    return x.log_softmax(1)


@log_softmax.slack
def slack(unit, y, x):
    """As of (x - max) - log(sum): with x - (max + log(sum)) an offset would take the digits.

    Next to the largest term a sum may lose what is below half an ulp of it.
    """
    below = x.amax(1, keepdim=True) - x
    terms = below.neg().exp()
    lost = terms.clamp(max=unit / 16).sum(1, keepdim=True) / terms.sum(1, keepdim=True)
    return unit * (5 + below + y.abs()) + lost


@log_softmax.baseline
def torch_eager(x):
    rounds = x.device.type == "cpu" and x.element_size() < 4  # there its logarithms of sums have 16 bits
    return torch.log_softmax(x.float() if rounds else x, -1)
