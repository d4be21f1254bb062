"""Triton's interpreter in a worker: bfloat16 rounded and multiplied as on a GPU."""

import pytest
from support.interpreted import interpreted

SCRIPT = """
import torch, triton, triton.language as tl
from softbench.measure.worker import interpreter
interpreter.correct()

@triton.jit
def narrow(y, x):
    at = tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at).to(tl.bfloat16))

@triton.jit
def multiply(c, a, b):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    tl.store(c + 16 * i + j, tl.dot(tl.load(a + 16 * i + j), tl.load(b + 16 * i + j)))

inf, nan = float("inf"), float("nan")
edges = [inf, -inf, nan, 3.4e38, -0.0, 1e-45, 1 + 2**-8, 1 + 3 * 2**-8, 1.998, -1.998]
x = torch.cat([torch.randn(1014) * torch.logspace(-44, 38, 1014), torch.tensor(edges)])
y = torch.empty(1024, dtype=torch.bfloat16)
narrow[(1,)](y, x)
right = x.bfloat16()
assert torch.equal(y.isnan(), right.isnan())
assert torch.equal(y[~right.isnan()], right[~right.isnan()])
assert torch.equal(torch.signbit(y)[~right.isnan()], torch.signbit(right)[~right.isnan()])

for dtype in (torch.float16, torch.bfloat16):
    a, b = (torch.randn(16, 16).to(dtype) for _ in range(2))
    c = torch.empty(16, 16)
    multiply[(1,)](c, a, b)
    torch.testing.assert_close(c, a.float() @ b.float())
"""


def test_bfloat16_rounds_to_nearest_even_and_multiplies(tmp_path):
    """Halfway cases, overflow to inf, subnormals, NaN; an interpreter that cuts bits off fails nearly everywhere."""
    pytest.importorskip("triton")
    interpreted(tmp_path, SCRIPT)
