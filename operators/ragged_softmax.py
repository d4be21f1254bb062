"""Softmax of each segment of a row: a row holds `segments` one after the other, and `ends` says before which column each ends.

As of sequences packed into one row. Segments may be empty, and the last one ends with the row.
"""

import torch

from softbench import operator


def segments_of(x, ends):
    """The number of the segment of each column."""
    columns = torch.arange(x.shape[1], device=x.device).expand(x.shape).contiguous()
    return torch.searchsorted(ends, columns, right=True).clamp_(max=ends.shape[1] - 1)


def softmax(x, segment, segments):
    """And the distances to the segments' maxima."""
    top = x.new_full((len(x), segments), -torch.inf).scatter_reduce_(1, segment, x, "amax")
    below = x - top.gather(1, segment)
    powers = below.exp()
    total = powers.new_zeros(top.shape).scatter_add_(1, segment, powers)
    return powers / total.gather(1, segment), below


@operator(
    reads={"x": "case", "ends": {"shape": "segments", "dtype": "int64", "below": "columns"}},
    writes={"y": "case"},
    params={"segments": (1, 65536)},
    hard={"x": ["peaked", "growing", "shifted_-1e2", "shifted_1e4", "padding_inf", "nan_middle"]},
)
def ragged_softmax(x, ends, *, segments):
    return softmax(x, segments_of(x, ends), segments)[0]


@ragged_softmax.prepare
def prepare(x, ends, *, segments):
    ends.copy_(ends.sort(1).values)
    ends[:, -1:] = x.shape[-1]


@ragged_softmax.hard
def empty(x, ends, *, segments):
    """All but the last."""
    ends[:, :-1] = 0


@ragged_softmax.slack
def slack(unit, y, x, ends, *, segments):
    """A sum may also lose what is far below its largest term, as in `log_softmax`."""
    segment = segments_of(x, ends)
    below = softmax(x, segment, segments)[1]
    small = below.exp().clamp(max=unit / 16)
    lost = small.new_zeros(ends.shape).scatter_add_(1, segment, small).gather(1, segment)
    return y * (unit * (5 - below.clamp(min=-1e6)) + lost)


@ragged_softmax.baseline
def torch_eager(x, ends, *, segments):
    rows = (x if x.dtype is torch.float64 else x.float()).reshape(-1, x.shape[-1])
    return softmax(rows, segments_of(rows, ends), segments)[0].view(x.shape)
