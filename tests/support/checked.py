"""Cases and launches that the checker is given, and what it says of them."""

from softbench.measure.check import check
from softbench.model import Case

LAYOUTS = ("contiguous", "offset-1", "padded-3", "strided-2", "transposed", "broadcast")


def question(operator, shape=(6, 4096), dtype="float32", distribution="normal", layout="contiguous", out_dtype=""):
    """A case that is timed if its values are normal."""
    return Case(operator, shape, dtype, out_dtype or dtype, layout, distribution, timed=distribution == "normal")


def right(case):
    import torch

    dtype = getattr(torch, case.out_dtype)
    return lambda x: torch.softmax(x, -1, dtype=None if x.dtype is dtype else dtype)


def reason(case, launch):
    verdict = check(case, launch, "cpu", seed=3)
    assert not verdict.ok
    assert "\n" not in verdict.reason
    return verdict.reason
