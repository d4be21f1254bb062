"""Softmax of scale x over the columns up to each row's `last` one, at most `window`; y is 0 elsewhere and where x is -inf.

A share `alibi` of slope times the distance to `last` is taken off (arXiv:2108.12409). Columns that are not seen need not be read:
ideal bytes and roof leave them out.
"""

import torch

from softbench import operator


def scores(x, last, slope, scale, window, alibi):
    """-inf where nothing is seen."""
    distance = last - torch.arange(x.shape[-1], device=x.device)
    return (scale * x - alibi * slope * distance).masked_fill((distance < 0) | (distance >= window), -torch.inf)


@operator(
    reads={
        "x": "case",
        "last": {"shape": "rows", "dtype": "int64", "below": "columns"},
        "slope": {"shape": "rows", "dtype": "float32"},
    },
    writes={"y": "case"},
    params={"scale": (0.01, 10.0), "window": (1, 1048576), "alibi": (0.0, 1.0)},
    needs="min(window, columns - queries + query + 1)",
    hard={"x": ["peaked", "growing", "shifted_-1e4", "padding_inf"]},
)
def causal_softmax(x, last, slope, *, scale, window, alibi):
    value = scores(x, last, slope, scale, window, alibi)
    return value.softmax(1).masked_fill(value == -torch.inf, 0.0)


@causal_softmax.prepare
def prepare(x, last, slope, *, scale, window, alibi):
    """Queries end where the keys do; head h of H has the slope 2^(-8 (h + 1) / H)."""
    heads, queries, columns = (1, 1, 1, *x.shape)[-3:]
    row = torch.arange(len(last), device=x.device)
    last.copy_(row % queries + (columns - queries))
    slope.copy_(torch.exp2(-8 * (row // queries % heads + 1) / heads))


@causal_softmax.hard
def unseen(x, last, slope, *, scale, window, alibi):
    """Nothing in every third row, and NaN in a column that no row sees."""
    last.clamp_(max=x.shape[-1] - 2)[::3] = -1
    x[..., -1] = torch.nan


@causal_softmax.slack
def slack(unit, y, x, last, slope, *, scale, window, alibi):
    value, plain = scores(x, last, slope, scale, window, alibi), scale * x
    top = value.amax(1, keepdim=True)
    terms = (value - top).exp()
    lost = terms.clamp(max=unit / 16).sum(1, keepdim=True) / terms.sum(1, keepdim=True)
    return y * (unit * (5 + (top - value + top.abs() + plain.abs() + (plain - value).abs()).clamp(max=1e6)) + lost)


@causal_softmax.baseline
def torch_eager(x, last, slope, *, scale, window, alibi):
    wide = (x if x.dtype is torch.float64 else x.float()).reshape(-1, x.shape[-1])
    value = scores(wide, last[:, None], slope[:, None], scale, window, alibi)
    return value.softmax(1).masked_fill_(value == -torch.inf, 0.0).view(x.shape)
