"""The softmax family in Triton: kernels in Triton's interpreter against the operators, and their cubins, without a GPU."""

import re

import pytest
from support.interpreted import ends_well, faulty, interpret, is_wrong
from support.paths import ROOT
from support.sass import sass
from support.settled import every

from softbench import Unsupported
from softbench.measure import cubin
from softbench.measure.worker.loading import load
from softbench.model import Case

pytest.importorskip("triton")
FILE = ROOT / "impls" / "triton" / "family.py"
LOSS = {"ignore": 0, "smoothing": 0.1, "z": 0.0001}
PLAIN = {"ignore": -100, "smoothing": 0, "z": 0}

KERNEL = """
from softbench.cases import operators
declared = loading.operator(operators.bundled()[sys.argv[1]])
operators.use([declared])
factory = load(Path(sys.argv[2]), sys.argv[3])

def right(shape, dtype="bfloat16", layout="contiguous", words=("normal",), **params):
    for word in words:
        case = Case(declared.name, shape, dtype, dtype, layout, word, timed=False, params=tuple(params.items()))
        reason = check(case, factory(case), "cpu", 1).reason
        assert not reason, (case.id, reason)
"""
BODY = """
for dtype in ("float16", "bfloat16", "float32"):
    right((8, 101), dtype, **{params})
right((2, 3, 9), layout="transposed", **{params})
right((0, 64), **{params})
right((3, 9001), "float32", **{params})
right((9, 300), words=declared.hard, **{params})
right((24, 24), words=("padding_inf", "nan_middle"), **{params})
"""
CASES = [
    ("log_softmax_backward", {}),
    ("cross_entropy", PLAIN),
    ("cross_entropy", LOSS),
    ("cross_entropy_backward", LOSS),
    ("cross_entropy_both", PLAIN),
    ("cross_entropy_both", LOSS),
    ("cross_entropy_in_place", LOSS),
    ("masked_softmax", {"scale": 0.125}),
    ("biased_softmax", {"scale": 0.125}),
    ("causal_softmax", {"scale": 0.125, "window": 5000, "alibi": 0.5}),
    ("ragged_softmax", {"segments": 3}),
]


TWO = "for dtype in ('bfloat16', 'float32'):\n    "
SEGMENTS = TWO + "right((1, 3000), dtype, words=('normal', 'empty'), segments=12)"  # longer than a program holds
LISTS = """
for dtype in ("bfloat16", "float32"):
    x = -(torch.arange(512) % (256 if dtype == "bfloat16" else 128))[None].to(getattr(torch, dtype))
    found = factory(Case(declared.name, x.shape, dtype, dtype, params=(("k", 16), ("renormalised", 1))))(x)[1]
    assert found.equal(x.sort(descending=True, stable=True).indices[:, :16].int())  # all of one lane
"""
TOPK = [
    "for dtype in ('float16', 'bfloat16', 'float32'):\n    right((19, 65), dtype, k=5, renormalised=1)",
    "right((19, 65), 'float32', words=('shifted_1e2', 'shifted_1e4'), k=5, renormalised=1)",  # ranked again, done again
    "right((3, 8), k=8, renormalised=0); right((5, 40), k=20, renormalised=0)",
    TWO + "right((3, 300), dtype, k=10, renormalised=0)",  # a row a warp: one by one, and one list of 32
    TWO + "right((2, 512), dtype, words=('normal', 'growing'), k=32, renormalised=1)",
    LISTS,
    "right((2, 3, 9), layout='transposed', k=1, renormalised=1); right((0, 64), k=1, renormalised=1)",
    "right((5, 40), 'float32', words=declared.hard, k=3, renormalised=0)",
    "right((5, 40), words=declared.hard, k=3, renormalised=1)",
]


LOG = [
    "for dtype in ('float16', 'float32', 'float64'):\n    right((2, 37, 101), dtype, 'transposed')",
    "right((3, 70, 700), layout='transposed', words=declared.hard)",
    # A tile, two, pieces or chunks, and split rows.
    *(f"right({shape}, 'float16'); right({shape}, 'float32')" for shape in ((133, 101), (5, 4100), (132, 17000), (2, 40000))),
    "right((9, 700), words=declared.hard); right((3, 64), 'float64')",
]


RIGHT = [
    *((operator, BODY.format(params=params)) for operator, params in CASES),
    ("cross_entropy_both", f"{TWO}right((7, 70003), dtype, **{LOSS})"),  # long rows are written from registers
    ("ragged_softmax", SEGMENTS),
    *(("softmax_topk", body) for body in TOPK),
    *(("log_softmax", body) for body in LOG),
]


def run(body, operator, file=FILE, name="triton_family"):
    return interpret(KERNEL + body, operator, file, name)


@every(("operator", "body"), RIGHT)
def test_the_kernels_are_right(operator, body):
    """Logarithms are by every kernel of softmax."""
    ends_well(run(body, operator, *[FILE.with_name("best.py"), "triton_best"] * (operator == "log_softmax")))


FAULTS = {
    "no guard for lanes of -inf": ("_rows", 'tl.where(top == -float("inf"), 0.0, top)', "top", "cross_entropy"),
    "lanes are not rescaled": ("_rows", "total * power(maximum - base, True)", "total", "cross_entropy"),
    "the target's logit is not subtracted": ("_rows", "dx - (1.0 - SMOOTHING), dx)\n", "dx, dx)\n", "cross_entropy_both"),
    "ignored rows have a loss": ("_rows", "if target == IGNORE:", "if target == -7:", "cross_entropy"),
    "the gradient of z is forgotten": ("_rows", "grown += 2.0 * Z * lse", "grown += 0.0", "cross_entropy_both"),
    "equal keys keep the order of their columns": ("_topk", "(rival > keys[slot]) |", "", "softmax_topk"),
    "who is chosen among equal keys is left open": ("_topk", "if tl.max((torn", "if tl.max(((row < 0)", "softmax_topk"),
    "an edge is left out": ("_spans", "[:, None] * ((last", "[:, None] * 0 * ((last", "masked_softmax"),
    "an edge of a segment is left out": ("_segments", "(count - 1) * V + each", "each - V", "ragged_softmax"),
    "a long segment's end is left out": ("_segments", "if count > HELD * LANES:", "if count < 0:", "ragged_softmax"),
    "a list is merged the wrong way": ("_lists", "bit, 7, 4, True", "bit, 7, 12, True", "softmax_topk"),
    "a lane's list that ends is not noticed": ("_topk", ">= least, K + 1, 0", ">= least, 0, 0", "softmax_topk"),
    "a window is one column too wide": ("_spans", "last - WINDOW,", "last - WINDOW - 1,", "causal_softmax"),
    "rows that see nothing are not 0": ("_spans", "y = tl.where(mask != 0, y, 0.0)", "y += 0.0", "masked_softmax"),
    "NaN is where nothing is seen": ("_spans", "total > 0.0, HELD, 0)", "total > 0.0, HELD, HELD)", "causal_softmax"),
    "columns after the last chunk are not 0": ("_spans", "(begin, end), CHUNKS", "(begin, end), end", "causal_softmax"),
}


@every(("file", "old", "new", "operator"), FAULTS.values())
def test_faults_are_found(tmp_path, file, old, new, operator):
    faulty(tmp_path, FILE.with_name(f"{file}.py"), old, new)
    body = "\n".join(TOPK) if operator == "softmax_topk" else BODY.format(params=dict(CASES)[operator])
    if operator == "ragged_softmax":
        body += SEGMENTS
    is_wrong(run(body, operator, tmp_path / "family.py"))


def built(operator, columns, dtype, **params):
    asked = Case(operator, (4096, columns), dtype, dtype, params=tuple(params.items()))
    ((_, code),) = load(FILE, "triton_family").softbench_cubins(asked)
    (found,) = cubin.resources(code)
    return found, code


@every(("operator", "params"), CASES)
def test_they_compile_for_hopper_with_whole_vectors_and_without_spills(operator, params):
    for dtype in ("bfloat16", "float32"):
        found, code = built(operator, 128256, dtype, **params)
        text = sass(code)[0]
        assert not re.search(r"\b(LDL|STL)", text), "a frame may be reserved and not used"
        assert found.registers <= 64, "two CTAs of 512 threads fit"
        assert re.search(r"LDG\.E\S*\.128", text), operator
        assert waits(text) == operator.endswith("_softmax"), operator


def waits(text):
    """Nothing is read before the kernel before has ended."""
    return "ACQBULK" in text.partition("LDG")[0]


@every(("columns", "k"), [(8, 2), (128, 8), (512, 10), (512, 32)])
def test_the_router_compiles_without_spills_and_fills_a_multiprocessor(columns, k):
    for dtype in ("bfloat16", "float32"):
        found, code = built("softmax_topk", columns, dtype, k=k, renormalised=1)
        assert found.stack_bytes == 0
        assert found.registers <= 64, "32 warps are the most CTAs of a multiprocessor"
        assert waits(sass(code)[0])


def test_refusals_and_empty_cases():
    factory = load(FILE, "triton_family")
    for asked, words in (
        (Case("log_softmax_backward", (4, 8), "float64", "float64"), "compute in float32"),
        (Case("softmax_topk", (4, 2000), "float32", "float32", params=(("k", 1), ("renormalised", 1))), "1 to 1024"),
    ):
        with pytest.raises(Unsupported, match=words):
            factory(asked)
    assert list(factory.softbench_cubins(Case("log_softmax_backward", (0, 8), "float16", "float16"))) == []
