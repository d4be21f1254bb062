"""Triton's interpreter in a worker: bfloat16 rounded as a GPU rounds it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.paths import ROOT

# In a process of its own: the interpreter is chosen before a kernel is decorated.
SCRIPT = """
import sys
import torch, triton, triton.language as tl
from softbench.measure.worker import interpreter
interpreter.round_to_nearest_even()

{kernel}

inf, nan = float("inf"), float("nan")
edges = [inf, -inf, nan, 3.4e38, -0.0, 1e-45, 1 + 2**-8, 1 + 3 * 2**-8, 1.998, -1.998]
x = torch.cat([torch.randn(1014) * torch.logspace(-44, 38, 1014), torch.tensor(edges)])
y = torch.empty(1024, dtype=torch.bfloat16)
narrow[(1,)](y, x)
right = x.bfloat16()
assert torch.equal(y.isnan(), right.isnan())
assert torch.equal(y[~right.isnan()], right[~right.isnan()])
assert torch.equal(torch.signbit(y)[~right.isnan()], torch.signbit(right)[~right.isnan()])
"""
KERNEL = """
@triton.jit
def narrow(y, x):
    at = tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at).to(tl.bfloat16))
"""


def test_bfloat16_is_rounded_to_the_nearest_even(tmp_path):
    """Halfway cases, overflow to inf, subnormals, NaN; an interpreter that cuts bits off fails nearly everywhere."""
    pytest.importorskip("triton")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(kernel=KERNEL))
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


PRODUCT = """
import sys
import torch, triton, triton.language as tl
from softbench.measure.worker import interpreter
interpreter.round_to_nearest_even()
interpreter.multiply_bfloat16()

@triton.jit
def multiply(c, a, b):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    tl.store(c + 16 * i + j, tl.dot(tl.load(a + 16 * i + j), tl.load(b + 16 * i + j)))

for dtype in (torch.float16, torch.bfloat16):
    a, b = (torch.randn(16, 16).to(dtype) for _ in range(2))
    c = torch.empty(16, 16)
    multiply[(1,)](c, a, b)
    torch.testing.assert_close(c, a.float() @ b.float())
"""


def test_products_of_bfloat16_are_of_numbers_and_not_of_their_bits(tmp_path):
    pytest.importorskip("triton")
    script = tmp_path / "script.py"
    script.write_text(PRODUCT)
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
