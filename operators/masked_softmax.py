"""Softmax of scale x over the columns where a mask is True; y is 0 elsewhere, and throughout a row without any.

Timed masks are drawn evenly, so that nothing of x can be left unread; hard ones are those of attention, and rows that see nothing.
"""

import torch

from softbench import operator


@operator(
    reads={"x": "case", "mask": {"shape": "case", "dtype": "bool", "share": 0.75}},
    writes={"y": "case"},
    params={"scale": (0.01, 10.0)},
    hard={"x": ["peaked", "growing", "shifted_-1e4", "padding_inf"]},
)
def masked_softmax(x, mask, *, scale):
    return (scale * x).masked_fill(~mask, -torch.inf).softmax(1).masked_fill(~mask, 0.0)


@masked_softmax.hard
def causal(x, mask, *, scale):
    torch.atleast_2d(mask.fill_(True)).tril_()


@masked_softmax.hard
def window(x, mask, *, scale):
    """100 columns at most, the diagonal's and those before; none in rows below the last."""
    torch.atleast_2d(mask.fill_(True)).tril_().triu_(-99)


@masked_softmax.hard
def unseen(x, mask, *, scale):
    """Nothing in two rows of three, and the last column in the third."""
    torch.atleast_2d(mask.fill_(False))[..., ::3, -1] = True


@masked_softmax.slack
def slack(unit, y, x, mask, *, scale):
    value = (scale * x).masked_fill(~mask, -torch.inf)
    top = value.amax(1, keepdim=True)
    terms = (value - top).exp()
    lost = terms.clamp(max=unit / 16).sum(1, keepdim=True) / terms.sum(1, keepdim=True)
    return y * (unit * (5 + (top - value + top.abs() + value.abs()).clamp(max=1e6)) + lost)


@masked_softmax.baseline
def torch_eager(x, mask, *, scale):
    wide = scale * (x if x.dtype is torch.float64 else x.float())
    return wide.masked_fill_(~mask, -torch.inf).softmax(-1).masked_fill_(~mask, 0.0)
