"""The Triton family's files and rungs."""

from softbench.model import Case
from support.paths import ROOT

FAMILY = ROOT / "impls" / "triton"
COPY = ROOT / "softbench" / "measure" / "roof" / "streams.py"
ANY_LENGTH = ("three_pass", "chunked", "exp2", "unrolled", "two_reads", "best")
RUNGS = ("three_pass", "single", "wide", "chunked", "exp2", "unrolled", "two_reads", "best")


def file(rung):
    return FAMILY / ("best.py" if rung == "best" else "ladder.py")


def case(rows, columns, dtype="float16", out_dtype=""):
    return Case("softmax", (rows, columns), dtype, out_dtype or dtype)
