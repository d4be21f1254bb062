"""`cross_entropy_both` where the gradient takes the memory of the logits, which are read and overwritten."""

import torch

from softbench import operator


@operator(
    reads={"logits": "case", "target": {"shape": "rows", "dtype": "int64", "below": "columns"}},
    writes={"loss": "rows", "dlogits": "case"},
    overwrites={"dlogits": "logits"},
    params={"ignore": (-100, 0), "smoothing": (0.0, 1.0), "z": (0.0, 0.01)},
    hard={"logits": ["peaked", "growing", "shifted_1e4", "padding_inf"]},
)
def cross_entropy_in_place(logits, target, *, ignore, smoothing, z):
    total, index = logits.logsumexp(1, keepdim=True), target.clamp(min=0)
    even = smoothing * logits.mean(1, keepdim=True) if smoothing else 0.0
    loss = total - (1 - smoothing) * logits.gather(1, index) - even + z * total.square()
    dlogits = logits.softmax(1) * (1 + 2 * z * total) - smoothing / logits.shape[1]
    dlogits.scatter_add_(1, index, torch.full_like(total, smoothing - 1))
    return loss.masked_fill(target == ignore, 0.0), dlogits.masked_fill(target == ignore, 0.0)


@cross_entropy_in_place.prepare
def prepare(logits, target, *, ignore, smoothing, z):
    target[5::64] = ignore


@cross_entropy_in_place.slack
def slack(unit, loss, dlogits, logits, target, *, ignore, smoothing, z):
    """As in `cross_entropy_both`."""
    total, top = logits.logsumexp(1, keepdim=True).abs(), logits.amax(1, keepdim=True)
    even = smoothing * logits.abs().mean(1, keepdim=True) if smoothing else 0.0
    grown, terms = 1 + 2 * z * (1 + total), (logits - top).exp()
    lost = terms.clamp(max=unit / 16).sum(1, keepdim=True) / terms.sum(1, keepdim=True)
    share = logits.softmax(1) * (unit * (5 + (top - logits).clamp(max=1e3)) + lost) * grown
    right = torch.full_like(logits, smoothing / logits.shape[1]).scatter_(1, target.clamp(min=0), 4.0)
    return 4 * unit * (1 + total + even + loss.abs()) * grown, share + unit * right


@cross_entropy_in_place.baseline
def torch_eager(logits, target, *, ignore, smoothing, z):
    rows = logits.reshape(-1, logits.shape[-1])
    rows = rows if rows.dtype is torch.float64 else rows.float()
    with torch.enable_grad():
        given = rows.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(given, target, None, None, ignore, None, "none", smoothing)
        (dlogits,) = torch.autograd.grad(loss.sum(), given)
    if z:
        lse = torch.where(target == ignore, 0.0, rows.logsumexp(1))
        loss = loss + z * lse.square()
        dlogits += rows.softmax(1) * (2 * z * lse)[:, None]
    return loss.detach(), logits.copy_(dlogits.view(logits.shape))
