from collections import Counter
from dataclasses import replace

import yaml
from support.cards import H200
from support.grids import over

from softbench import resources
from softbench.cases import matrix, shrinking
from softbench.cases.operators import ROW_OPERATORS, get
from softbench.cases.operators.attention import keys_of
from softbench.measure import device
from softbench.model import DTYPE_BYTES, Case


def axes(cases):
    return Counter((case.operator, case.dtype) for case in cases)


@over(
    "name, operators, dtypes",
    [
        ("published-dtypes", ["softmax"], ["bfloat16", "float32"]),
        ("backward", ["softmax_backward"], ["float16", "bfloat16", "float32"]),
        ("norms", ["rmsnorm", "layernorm"], ["bfloat16", "float32"]),
    ],
)
def test_the_published_shapes_in_other_words(bundled, name, operators, dtypes):
    shapes = [case.shape for case in bundled.profile("published")]
    cases = bundled.profile(name)
    assert axes(cases) == {(operator, dtype): 13 for operator in operators for dtype in dtypes}
    for i in range(0, len(cases), 13):
        assert [case.shape for case in cases[i : i + 13]] == shapes
    assert all(case.timed and case.out_dtype == case.dtype for case in cases)


def test_odd_widths_are_not_served_from_the_l2(bundled):
    cases = bundled.profile("odd")
    assert min(case.elements * DTYPE_BYTES[case.dtype] for case in cases) >= 128e6
    assert {case.columns for case in cases} == {1000, 8191, 50257, 128256, 151936, 262144}
    assert set(axes(cases)) == {("softmax", dtype) for dtype in ("float16", "bfloat16", "float32")}


def test_hard_operators_ask_what_is_defined(bundled):
    cases = bundled.profile("hard-operators")
    assert 60 <= len(cases) <= 120
    assert not any(case.timed for case in cases)
    assert {case.operator for case in cases} == set(ROW_OPERATORS) - {"softmax"}
    assert max(case.elements for case in cases) <= 2**25
    for case in cases:
        assert case.shape, "a norm has no 0-d input"
        if case.operator != "softmax_backward" and case.dtype != "float16":
            assert case.distribution not in ("dtype_max", "all_min", "causal_min", "padding_min"), "squares overflow"
        if case.operator == "add_layernorm":
            assert "inf" not in case.distribution, "whether a mean is then infinite or NaN depends on how it is taken"
    for name in set(ROW_OPERATORS) - {"softmax"}:
        mine = [case for case in cases if case.operator == name]
        assert any(case.columns % 2 for case in mine), name
        assert any(case.layout != "contiguous" for case in mine), name
        assert any("nan" in case.distribution for case in mine), name
        assert any(len(case.shape) == 3 for case in mine), name
        assert any(case.elements == 0 for case in mine), name


ATTENTIONS = ("attention", "attention_causal")
TILES = (64, 128)


def test_attention_spans_lengths_dimensions_tails_and_decoding(bundled):
    cases = bundled.profile("attention")
    assert len(cases) <= 50
    assert all(case.timed for case in cases)
    for operator in ATTENTIONS:
        square = [c for c in cases if c.operator == operator and c.dtype == "float16" and c.layout == "contiguous"]
        for dimension in (64, 128):
            lengths = {c.shape[2] for c in square if c.columns == dimension}
            assert {128, 512, 1024, 2048, 4096, 8192} <= lengths
        assert any(all(keys_of(c) % tile for tile in TILES) for c in square)
    decoding = [case for case in cases if case.shape[2] == 1]
    assert {case.operator for case in decoding} == {"attention"}, "of one query a causal mask hides nothing"
    assert {keys_of(case) for case in decoding} == {1000, 4096, 8191}
    assert max(get(case.operator).ideal_bytes(case) for case in cases) < 3e9


def test_hard_attention_asks_what_is_defined(bundled):
    cases = bundled.profile("hard-attention")
    assert not any(case.timed for case in cases)
    assert len(cases) <= 120
    assert max(get(case.operator).pairs(case) * case.shape[0] * case.shape[1] for case in cases) <= 2**19
    words = {case.distribution for case in cases}
    assert {"growing", "peaked", "segments_inf", "prefix_inf_255", "shifted_1e4"} <= words
    assert not words & {"all_inf", "plus_inf", "nan_first", "nan_middle", "nan_last"}, "a kernel may answer 0 or NaN"
    for operator in ATTENTIONS:
        mine = [case for case in cases if case.operator == operator]
        assert any(keys_of(case) < case.shape[2] for case in mine), "causal rows that see no key"
        assert any(case.elements == 0 for case in mine)
        assert any(keys_of(case) > 512 and case.distribution == "growing" and case.columns == 128 for case in mine)
        assert {"transposed", "strided-2", "offset-1"} <= {case.layout for case in mine}


def test_a_seed_draws_the_same_forever(bundled):
    cases, other = (matrix.load(bundled.path, seed).profile("random") for seed in (7, 8))
    assert [cases[i].id for i in (0, 199)] == ["softmax-float16-7696x4698", "softmax-bfloat16-56x169098"]
    many, few = other[:150], other[150:200]
    assert {case.columns.bit_length() for case in many} >= {*range(1, 21)}
    assert all(2**26 <= case.elements * DTYPE_BYTES[case.dtype] <= 2**29 for case in many)
    assert all(1 <= case.rows <= 64 and 2**13 <= case.columns <= 2**21 for case in few)


def test_every_group_says_why():
    profiles = yaml.safe_load(resources.bundled_shapes().read_text())["profiles"]
    assert [name for name, profile in profiles.items() if not all(group.get("why") for group in profile["groups"])] == []


CUTS = [
    ((32768, 1024), (256, 1024), (2048, 1024)),
    ((4096, 50257), (5, 50257), (41, 50257)),
    ((4, 2**20), (1, 2**20), (2, 2**20)),
    ((256, 1024), (256, 1024), (256, 1024)),
    ((16, 32, 1024, 64), (1, 4, 1024, 64), (1, 32, 1024, 64)),
    ((2, 32, 8192, 64), (1, 1, 4096, 64), (1, 4, 8192, 64)),
    ((65537, 0), (65537, 0), (65537, 0)),
    ((), (), ()),
]


@over("shape, fitted, checked", CUTS)
def test_rows_are_cut_and_columns_are_not(shape, fitted, checked):
    case = Case("softmax", shape, "float16", "float16")
    assert shrinking.fit(case).shape == fitted
    assert shrinking.fit(replace(case, timed=False)).shape == checked


def test_the_profile_cpu_is_not_cut(bundled):
    cases = bundled.profile("cpu")
    assert [shrinking.fit(case) for case in cases] == list(cases)
    assert max(case.elements for case in cases) == shrinking.MOST_ELEMENTS == 256 * 1024


@over(
    "arguments, cards, shape, count",
    [((), (), "32x8192", 9), (("--softbench-full-size",), (), "8192x8192", 13), ((), (H200,), "8192x8192", 13)],
)
def test_the_ids_say_what_is_run_and_the_header_what_was_cut(pytester, monkeypatch, arguments, cards, shape, count):
    monkeypatch.setattr(device, "gpus", lambda: cards)
    command = ("--softbench", "--softbench-profile=published", "--collect-only", "-k", "torch_eager")
    lines = pytester.runpytest_inprocess("-p", "softbench.plugin", *command, *arguments).outlines
    assert any(f"softmax-float16-{shape}>" in line for line in lines)
    (said,) = [line for line in lines if line.startswith(f"softbench: {count} cases, ")]
    told = "; for a CPU 13 cases cut to fewer rows (--softbench-full-size does not)"
    assert (told in said) is (count == 9)
