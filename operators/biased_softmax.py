"""Softmax of scale x plus a mask, which is -inf where nothing is seen: y is 0 there, and throughout a row that sees nothing."""

import torch

from softbench import operator


@operator(
    reads={"x": "case", "mask": "case"},
    writes={"y": "case"},
    params={"scale": (0.01, 10.0)},
    hard={"x": ["peaked", "growing", "shifted_-1e4", "padding_inf"]},
)
def biased_softmax(x, mask, *, scale):
    return (scale * x + mask).softmax(1).masked_fill(mask == -torch.inf, 0.0)


@biased_softmax.prepare
def prepare(x, mask, *, scale):
    mask.masked_fill_(mask < -1, -torch.inf)


@biased_softmax.hard
def causal(x, mask, *, scale):
    torch.atleast_2d(mask.fill_(-torch.inf)).triu_(1)


@biased_softmax.hard
def unseen(x, mask, *, scale):
    """Nothing in two rows of three, and the last column in the third."""
    torch.atleast_2d(mask.fill_(-torch.inf))[..., ::3, -1] = 0


@biased_softmax.slack
def slack(unit, y, x, mask, *, scale):
    value = scale * x + mask
    top = value.amax(1, keepdim=True)
    terms = (value - top).exp()
    lost = terms.clamp(max=unit / 16).sum(1, keepdim=True) / terms.sum(1, keepdim=True)
    return y * (unit * (5 + (top - value + (scale * x).abs() + mask.abs()).clamp(max=1e6)) + lost)


@biased_softmax.baseline
def torch_eager(x, mask, *, scale):
    wide = scale * (x if x.dtype is torch.float64 else x.float()) + mask
    return wide.softmax(-1).masked_fill_(mask == -torch.inf, 0.0)
