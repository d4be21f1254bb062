from support.readers import FILES

GELU = FILES["operators/gelu.py"]
HEAD = """import torch

from softbench import operator


"""
L2NORM = (
    HEAD
    + """@operator(
    reads={"x": "case", "weight": {"shape": "columns", "mean": 1, "spread": 0.25}},
    writes={"y": "case", "length": "rows"},
)
def l2norm(x, weight):
    length = x.square().sum(1, keepdim=True).sqrt()
    return x / length * weight, length


@l2norm.slack
def slack(unit, y, length, x, weight):
    return 6 * unit * y.abs(), 4 * unit * length


@l2norm.baseline
def torch_eager(x, weight):
    wide = x.double() if x.dtype is torch.float64 else x.float()
    length = wide.square().sum(-1, keepdim=True).sqrt()
    return wide / length * weight, length.flatten()
"""
)
CAPPED = (
    HEAD
    + """@operator(
    reads={"x": "case", "gate": "case"},
    writes={"y": "case"},
    bound="elementwise",
    params={"cap": (2, 64)},
    flops="rows * cap + columns / 2",
    hard={"x": ["peaked"], "gate": ["all_inf"]},
)
def capped(x, gate, *, cap):
    return torch.tanh(x / cap) * gate


@capped.hard
def late_spike(x, gate, *, cap):
    x[..., -1] = 1000


@capped.baseline
def torch_eager(x, gate, *, cap):
    return torch.tanh(x / cap) * gate
"""
)
UNCAPPED = """
import torch
from softbench import implementation

@implementation(operator="capped")
def uncapped(case):
    return lambda x, gate: torch.where(x == 1000, x, torch.tanh(x / case.params[0][1])) * gate
"""
SHAPES = """
profiles:
  gelu:
    description: gelu, timed
    groups: [{operator: gelu, dtype: [float32, bfloat16], shapes: [[16, 256]]}]
  own:
    description: all, timed
    groups: [{operator: [gelu, l2norm], dtype: float32, shapes: [[16, 256]]}]
  hard:
    description: all, checked
    timed: false
    groups:
      - {operator: [gelu, l2norm], dtype: [float16, float64], shapes: [[4, 5, 60]], layout: [padded-1, transposed]}
      - {operator: [gelu, l2norm], dtype: float16, out_dtype: float32, shapes: [[6, 60]], distribution: [peaked]}
      - {operator: [gelu, l2norm], drawn: 3}
      - {operator: l2norm, dtype: bfloat16, shapes: [[0, 5], [5, 0], [1, 1], [7, 3]], layout: broadcast}
"""
KERNELS = """
import torch
from softbench import implementation

def right_gelu(x, case):
    wide = x.float()
    return (wide * 0.5 * (1 + torch.erf(wide * 0.5**0.5))).to(getattr(torch, case.out_dtype))

@implementation(operator="gelu")
def gelu_erf(case):
    return lambda x: right_gelu(x, case)

@implementation(operator="gelu")
def gelu_tanh(case):
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh").to(getattr(torch, case.out_dtype))

@implementation(operator="gelu")
def gelu_tail(case):
    def launch(x):
        y = right_gelu(x, case)
        y[..., case.columns // 128 * 128 - 1:] = 7
        return y
    return launch
"""


OPERATORS = {"gelu": GELU, "l2norm": L2NORM}


def project(folder, operators=OPERATORS, kernels=KERNELS, shapes=SHAPES):
    (folder / "operators").mkdir()
    (folder / "kernels").mkdir()
    for name, text in operators.items():
        (folder / "operators" / f"{name}.py").write_text(text)
    (folder / "kernels" / "mine.py").write_text(kernels)
    (folder / "shapes.yaml").write_text(shapes)
    return folder
