"""A project with operators of its own: GELU, element by element, and a scaled L2 norm, row by row."""

from __future__ import annotations

from pathlib import Path

GELU = '''"""GELU: each element times the probability that a standard normal is below it."""

import math

import torch

from softbench import operator


@operator(reads={"x": "case"}, writes={"y": "case"}, bound="elementwise")
def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


@gelu.baseline
def torch_eager(x):
    return torch.nn.functional.gelu(x)
'''
L2NORM = '''"""Rows divided by their length and scaled by column, and the length: streams of other sizes, a slack of its own."""

import torch

from softbench import operator


@operator(
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
'''
SHAPES = """
profiles:
  gelu:
    description: gelu, timed
    groups: [{operator: gelu, dtype: [float32, bfloat16], shapes: [[16, 256]]}]
  own:
    description: both, timed
    groups: [{operator: [gelu, l2norm], dtype: float32, shapes: [[16, 256]]}]
  hard:
    description: both, checked
    timed: false
    groups:
      - {operator: [gelu, l2norm], dtype: [float16, float64], shapes: [[4, 5, 60]], layout: [padded-1, strided-2, transposed]}
      - {operator: [gelu, l2norm], dtype: float16, out_dtype: float32, shapes: [[6, 60]], distribution: [shifted_1e4, peaked]}
      - {operator: [gelu, l2norm], drawn: 3}
"""
KERNELS = """
import torch
from softbench import implementation

def right_gelu(x):
    return x * 0.5 * (1 + torch.erf(x * 0.5**0.5))

@implementation(operator="gelu", requires=["torch"])
def gelu_erf(case):
    return lambda x: right_gelu(x.float()).to(getattr(torch, case.out_dtype))

@implementation(operator="gelu", requires=["torch"])
def gelu_tanh(case):
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh").to(getattr(torch, case.out_dtype))

@implementation(operator="gelu", requires=["torch"])
def gelu_tail(case):
    def launch(x):
        y = right_gelu(x.float()).to(getattr(torch, case.out_dtype))
        y[..., case.columns // 128 * 128 - 1:] = 7
        return y
    return launch
"""


def project(folder: Path) -> Path:
    """The project: shapes.yaml, two operators and three implementations of gelu, of which one is right."""
    for name, text in (("operators/gelu.py", GELU), ("operators/l2norm.py", L2NORM), ("kernels/mine.py", KERNELS)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "shapes.yaml").write_text(SHAPES)
    return folder
