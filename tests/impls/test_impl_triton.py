"""The kernels of the Triton ladder and of triton_best in Triton's interpreter, against float64."""

import pytest
from support.interpreted import ends_well, interpret
from support.settled import every
from support.triton_family import ANY_LENGTH, RUNGS, file

pytest.importorskip("triton")
KERNEL = """
from softbench.cases.operators.inputs import same_bits
factory = load(Path(sys.argv[1]), sys.argv[2])
inf, nan = float("inf"), float("nan")
torch.manual_seed(7)

def right(x, out_dtype=None):
    dtype = str(x.dtype).removeprefix("torch.")
    case = Case("softmax", tuple(x.shape), dtype, out_dtype or dtype)
    before = x.clone()
    y = factory(case)(x)
    assert str(y.dtype) == f"torch.{case.out_dtype}" and y.shape == x.shape, (y.dtype, y.shape)
    assert same_bits(before, x), "input modified"
    reason = compare(case, (x,), y).reason
    assert not reason, (case.id, reason)
"""


# Columns 1 and 7 are below a vector, 1000 a multiple of it but no power of two, 4097 odd, 20000 over one tile.
DTYPES = """
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for shape in ((5, 1), (3, 7), (5, 1000), (3, 4097), (2, 20000)):
        if shape[1] <= 16384 or dtype != torch.float64 or {any_length}:
            right((3 * torch.randn(shape, dtype=torch.float64)).to(dtype))
right(torch.randn(4, 64).half(), "float32")
right(torch.randn(2, 9000), "float16")
"""
# Many chunks, the last one of one element; enough rows that `best` does not split them.
LONG = """
for shape in ((2, 36865), {more}):
    right((3 * torch.randn(shape)))
    right((3 * torch.randn(shape)).half())
"""
# Several chunks at a time, in parts of one and of three, the last ones short; lanes of nothing but -inf, and below float32's range.
SPANS = """
rung, split = load(Path(sys.argv[1]).parent / "_launch.py", "rung"), load(Path(sys.argv[1]).parent / "_plans.py", "split")
factory = lambda case: rung(case, lambda c: replace(split(c), block=256, parts=-(-c.columns // 768), span={span}))
for dtype in (torch.float16, torch.float32, torch.float64):
    x = (3 * torch.randn(4, 5001, dtype=torch.float64)).to(dtype)
    x[1, 100:4000] = -inf
    x[2] = torch.finfo(dtype).min
    x[3] = -inf
    right(x)
right(torch.full((1, 777), -1e300, dtype=torch.float64))
"""
# Each row exercises another of: partial maxima of -inf, +inf, NaN at every place, finfo limits, large offsets.
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
right(x)
if {sixteen}:
    right(x.clamp_min(-6e4).where(x > -inf, x).half())
x = torch.randn(5, n) + 1e4
x[1] -= 2e4
x[2, 9] = torch.finfo(torch.float32).max
x[3] = torch.linspace(-30, 30, n)
x[4] = torch.linspace(30, -30, n)
right(x)
"""
# With an exp2 that flushes as ex2.approx.ftz does, which numpy's would not; the last row `best` splits.
FAR_BELOW = """
import numpy as np
from support import depths
exp2 = np.exp2
def flushing(x):
    y = exp2(x)
    return np.where(y < 2.0**-126, np.float32(0), y) if y.dtype == np.float32 else y
np.exp2 = flushing
for dtype in ("bfloat16", "float32", "float16"):
    for columns, count in ((300, 15), (20000, 3), (40001, 2)):
        x = depths.rows(columns, dtype, count)
        right(x)
"""
# 132 rows and more of 16 bits and over 8192 columns are what `best` holds in pieces.
PIECES = (
    SPECIAL.format(columns=9001, copies=15, sixteen=True)
    + """
x = torch.randn(135, n).half()
for row in range(135):  # exp overflows unless the maximum comes from the right piece
    x[row, row * n // 135] = 200
right(x)
"""
)
# Transposed, strided, stride 0, unaligned and padded rows; 0-d to 4-D; nothing to do.
VIEWS = """
right(torch.randn(64, 40).t())
right(torch.randn(4, 80)[:, ::2])
right(torch.randn(40).expand(5, 40))
right(torch.randn(5, 1).expand(5, 40))
right(torch.randn(401)[1:].view(10, 40))
right(torch.randn(6, 48)[:, :40].half())
right(torch.randn(6, 43)[:, :40].half())
right(torch.randn(4, 10, 8).transpose(0, 1))
right(torch.randn(3, 50000)[:, ::2])
right(torch.randn(20000, 2).t())
for shape in ((), (9,), (2, 3, 4, 5), (0, 5), (5, 0), (2, 0, 4)):
    right(torch.randn(shape))
"""


@every(
    ("rung", "body"),
    [
        *((rung, DTYPES.format(any_length=rung in ANY_LENGTH)) for rung in RUNGS),
        *((rung, LONG.format(more="(132, 33001)" if rung == "best" else "")) for rung in ANY_LENGTH),
        *(("best", SPANS.format(span=span)) for span in (1, 2, 4)),
        *((rung, SPECIAL.format(columns=n, copies=1, sixteen=False)) for n in (300, 20000) for rung in RUNGS),
        *((rung, FAR_BELOW) for rung in ANY_LENGTH if rung != "unrolled"),
        ("best", PIECES),
        *((rung, VIEWS) for rung in ("single", "chunked", "best")),
    ],
)
def test_every_rung_is_right(rung, body):
    ends_well(interpret(KERNEL + body, file(rung), f"triton_{rung}"))
