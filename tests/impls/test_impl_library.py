"""The library entrants where they run without a GPU, and what each refuses."""

import fnmatch
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from support.grids import over
from support.paths import ROOT
from support.scripts import script
from support.settled import drawn

from softbench import Unsupported
from softbench.cases import matrix
from softbench.cases.operators import OPERATORS, ROW_OPERATORS, bundled, get
from softbench.cases.registry import find
from softbench.measure.check import check
from softbench.measure.worker.loading import load
from softbench.model import Case

torch = pytest.importorskip("torch")
LIBRARY = ROOT / "impls" / "library"


def factory(name):
    return load(LIBRARY / f"{name}.py", name)


def case(*shape, operator="softmax", dtype="float32", out_dtype="", layout="contiguous", **params):
    return Case(operator, shape, dtype, out_dtype or dtype, layout, params=tuple(params.items()))


def attention(*shape, layout="contiguous", operator="attention"):
    return case(*shape, operator=operator, dtype="float16", layout=layout)


def profiles(*names):
    shapes = matrix.load(ROOT / "shapes.yaml")
    return [found for name in names for found in shapes.profile(name)]


CAUSAL = attention(1, 2, 130, 64, layout="keys-63", operator="attention_causal")
VIEW, HUGE = attention(1, 2, 70, 64, layout="padded-8"), attention(64, 32, 8192, 64)
LOSS = {"operator": "cross_entropy", "ignore": -100, "smoothing": 0, "z": 0}
TOPK = {"operator": "softmax_topk", "k": 2, "renormalised": 1}


@over(
    "asked",
    [
        case(),
        case(2, 3, 5, dtype="float16", out_dtype="float32"),
        *(
            case(*shape, operator=operator, dtype=dtype, layout=layout)
            for operator in ROW_OPERATORS
            for dtype in ("float16", "bfloat16", "float32", "float64")
            for *shape, layout in ((5, 1001, "contiguous"), (3, 7, 33, "transposed"), (0, 8, "contiguous"))
        ),
    ],
)
def test_eager_is_right_for_every_operator(asked):
    assert check(asked, factory("torch_eager")(asked), "cpu").reason == ""


def test_torchs_attention_is_right_in_every_hard_case():
    """Masks aligned to the bottom right, rows that see no key, keys of -inf, views."""
    for asked in drawn(profiles("hard-attention"), __name__, "hard attention"):
        launches = [factory("torch_eager")(asked), factory("torch_sdpa")(asked, "math")]
        assert [check(asked, launch, "cpu").reason for launch in launches] == ["", ""], asked.id


def test_flash_attention_is_handed_lengths_before_heads(monkeypatch):
    """Another function in the place of flash-attn's: its words are (batch, length, heads, dimension)."""
    given = []

    def flash_attn_func(q, k, v, causal):
        given.append((tuple(q.shape), tuple(k.shape), causal))
        return torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)

    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_func=flash_attn_func))
    asked = attention(2, 3, 40, 64, layout="keys-50")
    assert check(asked, factory("flash_attention")(asked), "cpu").reason == ""
    assert given[0] == ((2, 40, 3, 64), (2, 50, 3, 64), False)


def test_host_copy_is_a_copy_of_any_view():
    x = torch.randn(4, 6).t()
    y = load(ROOT / "softbench/measure/roof/host.py", "host_copy")(case(6, 4, operator="softmax"))(x)
    assert torch.equal(x, y)
    assert y.is_contiguous()


COMPILED = """
import sys, torch
from pathlib import Path
from softbench.cases import operators
from softbench.measure.check import check
from softbench.model import Case
from softbench.measure.worker.loading import load, operator as loaded
operators.use(map(loaded, operators.bundled().values()))
factory = load(Path(sys.argv[1]), "torch_compile")
launch = factory(Case("softmax", (4, 100), "float32", "float16"))
compiled = []
torch._dynamo.callback_handler.register_start_callback(compiled.append)
def right(x):
    y = launch(x)
    assert y.dtype is torch.float16
    torch.testing.assert_close(y.double(), torch.softmax(x.double(), -1), rtol=1e-3, atol=1e-7)
right(torch.randn(4, 100))
right(torch.randn(401)[1:].view(4, 100))
assert not compiled, "compiled again for the same shape or another storage offset"
right(torch.randn(4, 200)[:, ::2])
assert len(compiled) == 1, "a view compiles once, at the checked launch"
try:
    launch(torch.randn(5, 100))
except torch._dynamo.exc.FailOnRecompileLimitHit:
    pass
else:
    sys.exit("a third compilation was not refused")
for operator in sys.argv[2:]:
    attention = operator.startswith("attention")
    shape, dtype = ((1, 2, 33, 64), "float16") if attention else ((6, 100), "bfloat16")
    for layout in ("contiguous", "keys-20") if attention else ("contiguous",):
        params = tuple((p.name, p.middle) for p in getattr(operators.get(operator), "params", ()))
        case = Case(operator, shape, dtype, dtype, layout, params=params)
        reason = check(case, factory(case), "cpu").reason
        assert not reason, (case.id, reason)
"""


def test_compile_happens_before_the_timing_and_is_right_for_every_operator():
    """In a process of its own: torch.compile's configuration is changed, and its imports warn."""
    done = script(COMPILED, str(LIBRARY / "torch_compile.py"), *drawn([*OPERATORS, *bundled()], __name__, "compile"))
    assert done.returncode == 0, done.stderr[-3000:]


@over(
    ("name", "asked", "reason"),
    [
        ("liger", case(4, 65537), "65536"),
        ("liger", case(4, 64, out_dtype="float16"), "input's dtype"),
        ("liger", case(), "0-d"),
        ("liger", case(4, 0), "no columns"),
        ("quack", case(4, 8191), "vector of 4 float32 divides the 8191"),
        ("quack", case(4, 1004, dtype="bfloat16"), "vector of 8"),
        ("quack", case(4, 64, dtype="float64"), "float64"),
        ("quack", case(4, 64, dtype="float16", out_dtype="float32"), "input's dtype"),
        ("liger", case(4, 64, operator="layernorm", dtype="float64"), "norms compute in float32"),
        ("quack", case(2, 4, 64), "3-D"),
        ("quack", case(4, 1001, operator="rmsnorm", dtype="bfloat16"), "copy 4 bytes at least; of 1001"),
        ("quack", case(4, 1001, operator="softmax_backward"), "vector of 4 float32 divides the 1001"),
        ("quack", case(8, 1002, operator="rmsnorm", dtype="float16", layout="padded-1"), "its vector of 2 elements"),
        ("torch_eager", case(operator="rmsnorm"), "0-d"),
        ("torch_eager", case(4, 64, operator="layernorm", out_dtype="float16"), "input's dtype"),
        ("torch_compile", case(4, 64, operator="rmsnorm", out_dtype="float16"), "inputs' dtype"),
        ("torch_compile", case(4, 64, operator="masked_softmax", out_dtype="float16", scale=1), "inputs' dtype"),
        ("quack", case(4, 64, **LOSS | {"smoothing": 0.1}), "no label smoothing"),
        ("quack", case(4, 64, **LOSS | {"operator": "cross_entropy_backward", "z": 0.1}), "no z-loss"),
        ("quack", case(4, 64, **TOPK | {"renormalised": 0}), "that of the k largest"),
        ("quack", case(4, 64, **TOPK | {"k": 6}), "powers of two, not 6"),
        ("quack", case(4, 96, **TOPK), "not 2 of 96"),
        ("quack", case(4, 64, dtype="bfloat16", **TOPK), "of its input's dtype"),
        ("quack", case(8, 64, layout="transposed"), "column stride"),
        ("quack", case(8, 64, layout="strided-2"), "column stride"),
        ("quack", case(8, 64, layout="offset-1+padded-4"), "aligned to its vector of 4"),
        ("quack", case(8, 64, dtype="float16", layout="padded-4"), "aligned to its vector of 8"),
        ("torch_sdpa flash", CAUSAL, "flash attention is asked without a mask"),
        ("torch_sdpa cudnn", CAUSAL, "cudnn attention is asked without a mask"),
        ("torch_sdpa cudnn", attention(1, 2, 1, 64), "single key"),
        ("torch_sdpa cudnn", attention(1, 2, 130, 64, layout="keys-1"), "single key"),
        ("torch_sdpa efficient", VIEW, "contiguous inputs only; the layout is padded-8"),
        ("flash_attention", VIEW, "contiguous inputs only; the layout is padded-8"),
        ("torch_sdpa math", HUGE, "all scores at once would take 512 GiB"),
        ("torch_compile", HUGE, "256 GiB"),
    ],
)
def test_refusals_name_the_librarys_limit(name, asked, reason):
    name, *backend = name.split()
    with pytest.raises(Unsupported, match=reason):
        factory(name)(asked, *backend)


def test_one_name_stands_on_the_board_of_each_operator():
    served = {}
    for variant in find([LIBRARY]):
        served.setdefault(variant.implementation, []).append(variant.operator)
    assert set(served) == {"flash_attention", "liger", "quack", "torch_compile", "torch_eager", "torch_sdpa"}
    assert served["torch_eager"] == list(OPERATORS), "others bring theirs"
    assert set(served["torch_compile"]) == {*OPERATORS, *bundled()}
    losses = ["cross_entropy", "cross_entropy_backward", "cross_entropy_both", "cross_entropy_in_place"]
    assert served["quack"] == [*ROW_OPERATORS, *losses, "softmax_topk"], "quack has no attention"
    both = ["attention", "attention_causal"]
    assert served["flash_attention"] == both
    assert Counter(served["torch_sdpa"]) == dict.fromkeys(both, 4), "a variant a backend"
    assert served["liger"] == [*(name for name in ROW_OPERATORS if name != "add_layernorm"), losses[0], losses[-1]]
    eager = {get(name).baseline for name in OPERATORS}
    assert eager == {"torch_eager"}


@pytest.fixture(scope="module")
def declared():
    return {variant.implementation: variant for variant in find([LIBRARY])}


def test_a_machine_without_a_gpu_does_not_interpret_liger(declared):
    assert not any("triton" in requirement for requirement in declared["liger"].requires)


# A few of what it fails, and of what it computes right beside them.
QUACK_FAILS = """
softmax-bfloat16-4096x151936
softmax-bfloat16-5x65544-check
softmax-float16-4096x4096-causal_inf
softmax-bfloat16-64x4096-prefix_inf_255
softmax-float32-4x1048576-check
softmax-float16-5x65544-check
softmax-float32-64x4096-shifted_-1e4
softmax_backward-float32-4x1048576-check
add_rmsnorm-float32-4096x65536
add_layernorm-float32-64x131072
"""
QUACK_PASSES = """
softmax-bfloat16-4096x65536
softmax-float32-5x65544-check
softmax-float16-64x4096-shifted_1e2
softmax-float16-64x4096-prefix_inf_257
softmax-float32-4x1024-causal_inf
softmax-float16-64x4096-padding_min
softmax_backward-float32-4096x131072
add_layernorm-bfloat16-4x131072-check
layernorm-float32-4096x65536
"""


def test_quacks_known_failures_are_the_cells_that_fail(declared):
    assert [name for name in (QUACK_FAILS + QUACK_PASSES).split() if known(declared["quack"], name)] == QUACK_FAILS.split()


def known(variant, name):
    return any(fnmatch.fnmatchcase(name, failure.pattern) for failure in variant.known_failures)


def test_ligers_known_failures_are_sums_in_16_bits(declared):
    """Where a row is one value, or there is none, there is nothing to round. bfloat16 fails in the cases that are timed,
    whose rows are many, and in one other."""
    right = {"float16-37x1-check", "float16-64x4096-prefix_inf_1", "float16-0x1024-check", "float16-16x0-check"}
    timed = profiles("backward")
    cases = [c for c in profiles("hard-operators", "backward") if c.columns <= 65536]
    found = {c.id for c in cases if known(declared["liger"], c.id)}
    assert found == {
        c.id
        for c in cases
        if c.operator == "softmax_backward"
        and (
            (c.dtype == "float16" and c.id.partition("-")[2] not in right)
            or (c.dtype == "bfloat16" and (c in timed or c.shape == (37, 1001)))
        )
    }
    assert len(found) > 20


def test_ligers_loss_fails_where_a_row_is_ignored(declared):
    """Row 5 is: seen in Triton's interpreter with Liger 0.8.5."""
    cases = [c for c in profiles("cross-entropy", "hard-family") if c.operator == "cross_entropy"]
    assert {c for c in cases if known(declared["liger"], c.id)} == {c for c in cases if c.rows > 5}
