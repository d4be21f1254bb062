"""The loss of each row for its target: log(sum(exp(x))) - x[target], smoothed, plus z times the square of the logarithm.

Rows whose target is `ignore` have no loss. Smoothing as in Szegedy et al. (arXiv:1512.00567), z-loss as in PaLM (arXiv:2204.02311).
"""

import torch

from softbench import operator


@operator(
    reads={"logits": "case", "target": {"shape": "rows", "dtype": "int64", "below": "columns"}},
    writes={"loss": "rows"},
    params={"ignore": (-100, 0), "smoothing": (0.0, 1.0), "z": (0.0, 0.01)},
    hard={"logits": ["peaked", "growing", "shifted_1e4", "padding_inf"]},
)
def cross_entropy(logits, target, *, ignore, smoothing, z):
    total = logits.logsumexp(1, keepdim=True)
    loss = (1 - smoothing) * (total - logits.gather(1, target.clamp(min=0)))
    if smoothing:
        loss = loss + smoothing * total - (smoothing / logits.shape[1] * logits).sum(1, keepdim=True)
    if z:
        loss = loss + z * total.square()
    return loss.masked_fill(target == ignore, 0.0)


@cross_entropy.prepare
def prepare(logits, target, *, ignore, smoothing, z):
    target[5::64] = ignore


@cross_entropy.slack
def slack(unit, loss, logits, target, *, ignore, smoothing, z):
    total = logits.logsumexp(1, keepdim=True).abs()
    even = smoothing * logits.abs().mean(1, keepdim=True) if smoothing else 0.0
    return 4 * unit * (1 + total + even + loss.abs()) * (1 + 2 * z * (1 + total))


@cross_entropy.baseline
def torch_eager(logits, target, *, ignore, smoothing, z):
    rows = logits.reshape(-1, logits.shape[-1])
    rows = rows if rows.dtype is torch.float64 else rows.float()
    words = {"ignore_index": ignore, "label_smoothing": smoothing, "reduction": "none"}
    loss = torch.nn.functional.cross_entropy(rows, target, **words)
    return loss + torch.where(target == ignore, 0.0, z * rows.logsumexp(1).square()) if z else loss
