"""What the checker is given, and what it says."""

from softbench.cases.operators import get
from softbench.measure.check import check
from softbench.model import Case

LAYOUTS = ("contiguous", "offset-1", "padded-3", "strided-2", "transposed", "broadcast")


def question(operator, shape=(6, 4096), dtype="float32", distribution="normal", layout="contiguous", out_dtype=""):
    return Case(operator, shape, dtype, out_dtype or dtype, layout, distribution, timed=distribution == "normal")


def right(case):
    import torch

    dtype = getattr(torch, case.out_dtype)
    if case.operator == "softmax_backward":
        return lambda dy, y: torch.ops.aten._softmax_backward_data(dy.to(dtype), y.to(dtype), -1, dtype)
    return lambda x: torch.softmax(x, -1, dtype=None if x.dtype is dtype else dtype)


def rows_expected(case, inputs):
    """(row, {output: its values}) of some rows, asked for as a slice and as a tensor."""
    import torch

    kept = [x.clone() for x in inputs]
    for rows, indices in ((slice(1, 4), (1, 2, 3)), (torch.tensor([5, 0]), (5, 0))):
        blocks = list(get(case.operator).expected(case, inputs, rows, "cpu"))
        found = {n: torch.cat([b.values for b in blocks if b.output == n], 1).tolist() for n in {b.output for b in blocks}}
        for place, index in enumerate(indices):
            yield index, {n: values[place] for n, values in found.items()}
    assert all(map(torch.equal, inputs, kept))


def fault(case, launch):
    return check(case, launch, "cpu", seed=3).reason


def reason(case, launch):
    found = fault(case, launch)
    assert found
    assert "\n" not in found
    return found
