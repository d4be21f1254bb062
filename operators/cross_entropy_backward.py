"""The gradient of `cross_entropy` with respect to the logits, from the logarithm of each row's sum and the loss's gradient."""

import torch

from softbench import operator


@operator(
    reads={
        "logits": "case",
        "target": {"shape": "rows", "dtype": "int64", "below": "columns"},
        "lse": {"shape": "rows", "dtype": "float32"},
        "dloss": {"shape": "rows", "dtype": "float32", "mean": 1, "spread": 0.25},
    },
    writes={"dlogits": "case"},
    params={"ignore": (-100, 0), "smoothing": (0.0, 1.0), "z": (0.0, 0.01)},
    hard={"logits": ["peaked", "growing", "shifted_1e2", "padding_inf"]},
)
def cross_entropy_backward(logits, target, lse, dloss, *, ignore, smoothing, z):
    dlogits = (logits - lse).exp() * (1 + 2 * z * lse) - smoothing / logits.shape[1]
    dlogits.scatter_add_(1, target.clamp(min=0), torch.full_like(lse, smoothing - 1))
    return (dlogits * dloss).masked_fill(target == ignore, 0.0)


@cross_entropy_backward.prepare
def prepare(logits, target, lse, dloss, *, ignore, smoothing, z):
    target[5::64] = ignore
    parts = logits.reshape(-1, logits.shape[-1]).split(512)
    lse.copy_(torch.cat([part.float().logsumexp(1) for part in parts]))


@cross_entropy_backward.slack
def slack(unit, dlogits, logits, target, lse, dloss, *, ignore, smoothing, z):
    share = (logits - lse).exp() * (5 + (logits - lse).abs().clamp(max=1e3)) * (1 + 2 * z * lse.abs())
    right = torch.full_like(logits, smoothing / logits.shape[1]).scatter_(1, target.clamp(min=0), 4.0)
    return unit * (share + right) * dloss.abs()


@cross_entropy_backward.baseline
def torch_eager(logits, target, lse, dloss, *, ignore, smoothing, z):
    rows = logits.reshape(-1, logits.shape[-1])
    lse, dloss = (x.to(torch.promote_types(rows.dtype, x.dtype)) for x in (lse, dloss))
    dlogits = (rows - lse[:, None]).exp_() * (1 + 2 * z * lse)[:, None]
    dlogits -= smoothing / rows.shape[1]
    dlogits.scatter_add_(1, target.clamp(min=0)[:, None], torch.full_like(dlogits[:, :1], smoothing - 1))
    return (dlogits * torch.where(target == ignore, 0.0, dloss)[:, None]).view(logits.shape)
