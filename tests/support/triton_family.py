"""The Triton family's files and rungs."""

from softbench.model import Case
from support.paths import ROOT

FAMILY = ROOT / "impls" / "triton"
COPY = ROOT / "softbench" / "measure" / "roof" / "streams.py"
RUNGS = ("three_pass", "single", "wide", "chunked", "exp2", "unrolled", "two_reads", "best")
ANY_LENGTH = [rung for rung in RUNGS if rung not in ("single", "wide")]


def file(rung):
    return FAMILY / ("best.py" if rung == "best" else "ladder.py")


def case(rows, columns, dtype="float16", out_dtype="", **more):
    return Case("softmax", (rows, columns), dtype, out_dtype or dtype, **more)
