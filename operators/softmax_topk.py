"""A router: the k largest of a row's softmax, largest first, and their columns; if `renormalised`, their sum is 1.

That is also the softmax of the k largest scores. Gates of Mixtral (arXiv:2401.04088) and DeepSeek-V2 (arXiv:2405.04434).
"""

import torch

from softbench import operator


@operator(
    reads={"scores": "case"},
    writes={"weight": {"shape": "k"}, "expert": {"shape": "k", "dtype": "int32", "indexes": "scores"}},
    params={"k": (1, 32), "renormalised": (0, 1)},
    hard={"scores": ["peaked", "equal", "growing", "shifted_1e2", "dtype_max", "padding_inf", "prefix_inf_1", "all_min"]},
)
def softmax_topk(scores, *, k, renormalised):
    top = scores.topk(k, dim=1)
    return top.values.softmax(1) if renormalised else scores.softmax(1).gather(1, top.indices), top.indices


@softmax_topk.slack
def slack(unit, weight, expert, scores, *, k, renormalised):
    return unit * weight * (5 - weight.log().clamp(min=-1e3))


@softmax_topk.baseline
def torch_eager(scores, *, k, renormalised):
    rows = scores.reshape(-1, scores.shape[-1])
    rows = rows if rows.dtype is torch.float64 else rows.float()
    top, expert = rows.topk(k, dim=1)
    return top.softmax(1) if renormalised else rows.softmax(1).gather(1, expert), expert
