"""The Triton ladder and triton_best: plans, cubins, launches, and the kernels in Triton's interpreter against float64."""

import itertools

import pytest
from support.scripts import script
from support.settled import every
from support.triton_family import ANY_LENGTH, COPY, RUNGS, file

from softbench import Unsupported
from softbench.measure.worker.loading import load
from softbench.model import Case

pytest.importorskip("triton")


# Runs in a process of its own: the interpreter has to be chosen before triton's kernels are decorated.
INTERPRETED = """
import sys, warnings
warnings.simplefilter("error")
# numpy's words for what a GPU does silently: -inf minus -inf, which is how an all -inf row becomes NaN.
warnings.filterwarnings("ignore", category=RuntimeWarning)
import torch
from pathlib import Path
from softbench.model import Case
from softbench.measure.worker.loading import load
factory = load(Path(sys.argv[1]), sys.argv[2])
inf, nan = float("inf"), float("nan")
torch.manual_seed(7)

def check(x, out_dtype=None, **params):
    dtype = str(x.dtype).removeprefix("torch.")
    case = Case("softmax", tuple(x.shape), dtype, out_dtype or dtype)
    before = x.clone()
    y = factory(case, **params)(x)
    assert str(y.dtype) == f"torch.{case.out_dtype}" and y.shape == x.shape, (y.dtype, y.shape)
    assert torch.equal(before.nan_to_num(3.0), x.nan_to_num(3.0)), "input modified"
    right = torch.softmax(x.double(), -1)
    assert torch.equal(y.isnan(), right.isnan()), (case.id, "NaN masks differ")
    info = torch.finfo(y.dtype)
    if x.numel():
        # (x - maximum) is rounded once and multiplied once, so its error grows with it.
        depth = (x.double() - x.double().amax(-1, keepdim=True)).abs().nan_to_num(0.0, 0.0, 0.0)
        allowed = (info.eps + (1 + depth) * (2**-20 if x.dtype != torch.float64 else 2**-46)) * right + info.tiny
        error = (y.double() - right).abs()
        assert not (error > allowed).any(), (case.id, error.nan_to_num().max())
"""


def interpret(body, path, name):
    done = script(INTERPRETED + body, str(path), name, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-3000:]


@every("rung", RUNGS)
def test_rows_of_every_dtype(rung):
    """Columns 1 and 7 are below a vector, 1000 a multiple of it but no power of two, 4097 odd, 20000 over one tile."""
    shapes = "(5, 1), (3, 7), (5, 1000), (3, 4097), (2, 20000)"
    interpret(
        f"""
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for shape in ({shapes}):
        if shape[1] <= 16384 or dtype != torch.float64 or {rung in ANY_LENGTH}:
            check((3 * torch.randn(shape, dtype=torch.float64)).to(dtype))
check(torch.randn(4, 64).half(), "float32")
check(torch.randn(2, 9000), "float16")
""",
        file(rung),
        f"triton_{rung}",
    )


@every("rung", ANY_LENGTH)
def test_long_rows(rung):
    """Many chunks, the last one of one element; enough rows that `best` does not split them, once."""
    shapes = "(2, 36865), (132, 33001)" if rung == "best" else "(2, 36865)"
    interpret(
        f"""
for shape in ({shapes},):
    check((3 * torch.randn(shape)))
    check((3 * torch.randn(shape)).half())
""",
        file(rung),
        f"triton_{rung}",
    )


@every("span", [1, 2, 4])
def test_several_chunks_at_a_time(span):
    """Parts of one and of three chunks, the last ones short; lanes with nothing but -inf, and below float32's range."""
    interpret(
        f"""
from dataclasses import replace
rung, split = load(Path(sys.argv[1]).parent / "_launch.py", "rung"), load(Path(sys.argv[1]).parent / "_plans.py", "split")
factory = lambda case: rung(case, lambda c: replace(split(c), block=256, parts=-(-c.columns // 768), span={span}))
for dtype in (torch.float16, torch.float32, torch.float64):
    x = (3 * torch.randn(4, 5001, dtype=torch.float64)).to(dtype)
    x[1, 100:4000] = -inf
    x[2] = torch.finfo(dtype).min
    x[3] = -inf
    check(x)
check(torch.full((1, 777), -1e300, dtype=torch.float64))
""",
        file("best"),
        "triton_best",
    )


SPECIAL = """
n = {columns}
x = torch.randn(9, n)
x[0] = -inf
x[1, 1:] = -inf
x[2, : n - 1] = -inf
x[3, 5] = inf
x[4, n - 1] = nan
x[5, 0] = nan
x[6] = torch.finfo(torch.float32).min
x[7, n // 4 :] = -inf
x[7, n // 2] = nan
x[8, ::2] = -inf
x = torch.cat([x] * {copies})
check(x)
if {sixteen}:
    check(x.clamp_min(-6e4).where(x > -inf, x).half())
x = torch.randn(5, n) + 1e4
x[1] -= 2e4
x[2, 9] = torch.finfo(torch.float32).max
x[3] = torch.linspace(-30, 30, n)
x[4] = torch.linspace(30, -30, n)
check(x)
"""


@every(("columns", "rung"), itertools.product((300, 20000), RUNGS))
def test_masked_rows_and_extreme_values(rung, columns):
    """Each row exercises another of: partial maxima of -inf, +inf, NaN at every place, finfo limits, large offsets."""
    interpret(SPECIAL.format(columns=columns, copies=1, sixteen=False), file(rung), f"triton_{rung}")


@every("rung", ["three_pass", "chunked", "exp2", "two_reads", "best"])
def test_what_lies_far_below_the_peak_is_not_lost(rung):
    """With an exp2 that flushes as ex2.approx.ftz does, which numpy's would not; the last row `best` splits."""
    body = """
import numpy as np
from support import depths
from softbench.measure.check import compare
from softbench.measure.worker import interpreter

interpreter.correct()
exp2 = np.exp2
def flushing(x):
    y = exp2(x)
    return np.where(y < 2.0**-126, np.float32(0), y) if y.dtype == np.float32 else y
np.exp2 = flushing
for dtype in ("bfloat16", "float32", "float16"):
    for columns, count in ((300, 15), (20000, 3), (40001, 2)):
        x = depths.rows(columns, dtype, count)
        case = Case("softmax", (count, columns), dtype, dtype)
        reason = compare(case, (x,), factory(case)(x)).reason
        assert not reason, (dtype, columns, reason)
"""
    interpret(body, file(rung), f"triton_{rung}")


def test_masked_rows_in_pieces():
    """132 rows and more of 16 bits and over 8192 columns are what `best` holds in pieces."""
    spikes = """
x = torch.randn(135, n).half()
for row in range(135):  # exp overflows unless the maximum comes from the right piece
    x[row, row * n // 135] = 200
check(x)
"""
    interpret(SPECIAL.format(columns=9001, copies=15, sixteen=True) + spikes, file("best"), "triton_best")


@every("rung", ["single", "chunked", "best"])
def test_views_and_ranks(rung):
    """Transposed, strided, stride 0, unaligned and padded rows; 0-d to 4-D; nothing to do."""
    interpret(
        """
check(torch.randn(64, 40).t())
check(torch.randn(4, 80)[:, ::2])
check(torch.randn(40).expand(5, 40))
check(torch.randn(5, 1).expand(5, 40))
check(torch.randn(401)[1:].view(10, 40))
check(torch.randn(6, 48)[:, :40].half())
check(torch.randn(6, 43)[:, :40].half())
check(torch.randn(4, 10, 8).transpose(0, 1))
check(torch.randn(3, 50000)[:, ::2])
check(torch.randn(20000, 2).t())
for shape in ((), (9,), (2, 3, 4, 5), (0, 5), (5, 0), (2, 0, 4)):
    check(torch.randn(shape))
""",
        file(rung),
        f"triton_{rung}",
    )


def test_the_roof_copies_every_byte():
    """float16 of odd length has 2-byte words, 4099 int32 words leave a partial block."""
    interpret(
        """
for shape, dtype in (((4099,), torch.float32), ((33, 2), torch.float16), ((3, 341), torch.float16),
                     ((0, 4), torch.float32), ((), torch.float64), ((64, 128), torch.bfloat16)):
    x = torch.randn(shape, dtype=torch.float64).to(dtype)
    for threads in (128, 512):
        for hint in ("plain", "evict_first"):
            name = str(dtype).removeprefix("torch.")
            y = factory(Case("copy", shape, name, name), threads, hint)(x)
            assert torch.equal(x, y) and y.data_ptr() != x.data_ptr() or x.numel() == 0
""",
        COPY,
        "copy",
    )


def test_the_roof_refuses_what_is_no_copy():
    copy = load(COPY, "copy")
    with pytest.raises(Unsupported, match="float16 to float32"):
        copy(Case("copy", (4, 4), "float16", "float32"), 128, "plain")
    with pytest.raises(Unsupported, match="strided-2"):
        copy(Case("copy", (4, 4), "float16", "float16", layout="strided-2"), 128, "plain")
