from collections import Counter
from dataclasses import replace

import torch
from support.bundled import known  # noqa: F401
from support.grids import over

from softbench.cases import matrix, operators
from softbench.cases.operators.recipes import Form
from softbench.measure.check import check
from softbench.measure.worker import loading, proving
from softbench.model import Case

NAMES = tuple(operators.bundled())
operator = operators.of_file
LOSS = {"ignore": 0, "smoothing": 0.1, "z": 0.0001}
PLAIN = {"ignore": -100, "smoothing": 0, "z": 0}


def case(name, *shape, dtype="float32", layout="contiguous", **params):
    values = {parameter.name: parameter.middle for parameter in operator(name).params} | params
    return Case(name, shape, dtype, dtype, layout, params=tuple(values.items()))


@over("name", NAMES)
def test_a_file_agrees_with_itself_and_with_torch(name):
    found = operator(name)
    assert proving.fault(found) == ""
    baseline = loading.load(found.path, found.baseline, found.source_hash)
    asked = [case(name, *shape, dtype=dtype) for dtype in ("float16", "bfloat16", "float32", "float64")
             for shape in ((37, 101), (3, 5, 64), (0, 64))]  # fmt: skip
    asked += [case(name, 9, 64, dtype="bfloat16", layout=word) for word in ("transposed", "padded-3", "broadcast")]
    asked = [each for each in asked if not found.over or each.layout != "broadcast"]
    asked += [replace(case(name, 13, 96), distribution=word, timed=False) for word in found.hard]
    for each in (*asked, *matrix.drawn([name], 2, 1)):
        assert check(each, baseline(each), "cpu", 1).reason == "", each.id


def cross_entropy(x, target, ignore=-1):
    return torch.nn.functional.cross_entropy(x.float(), target, ignore_index=ignore, reduction="none")


def gradient(x, target, lse, dloss):
    return ((x - lse[:, None]).exp() * dloss[:, None]).to(x.dtype)


def near(x, shift, window):
    seen = torch.ones_like(x, dtype=torch.bool).tril(shift).triu(shift - window + 1)
    return x.masked_fill(~seen, -torch.inf).softmax(1)


def topk(x, by=lambda rows: rows):
    top = x.topk(4, dim=1)
    return by(top.values).softmax(1), top.indices.int()


MISTAKES = [
    ("log_softmax", {}, lambda x: x - x.amax(-1, keepdim=True), "expected"),
    ("log_softmax", {}, lambda x: x - x.logsumexp(-1, keepdim=True).half(), "low precision"),
    ("log_softmax_backward", {}, lambda dy, y: dy.clone(), "expected"),
    ("log_softmax_backward", {}, lambda dy, y: dy - y.exp() * dy.half().sum(-1, keepdim=True), "expected"),
    ("cross_entropy", PLAIN | {"ignore": 0}, cross_entropy, "expected 0 "),
    ("cross_entropy", LOSS, lambda x, t: cross_entropy(x, t, 0), "expected"),
    ("cross_entropy", PLAIN, lambda x, t: cross_entropy(x.half(), t, -100).half().float(), "low precision"),
    ("cross_entropy_backward", PLAIN, gradient, "expected"),
    ("cross_entropy_both", PLAIN, lambda x, t: (cross_entropy(x, t, -100), x.softmax(1)), "output 1"),
    ("cross_entropy_in_place", PLAIN, lambda x, t: (cross_entropy(x, t, -100), x), "output 1"),
    ("masked_softmax", {"scale": 0.5}, lambda x, m: x.masked_fill(~m, -torch.inf).softmax(1), "expected"),
    ("masked_softmax", {"scale": 1}, lambda x, m: x.masked_fill(~m, -1e4).softmax(1) * m + 1e-5, "expected"),
    ("biased_softmax", {"scale": 1}, lambda x, m: x.masked_fill(m < -1, -torch.inf).softmax(1), "expected"),
    ("causal_softmax", {"window": 600, "alibi": 0.5, "scale": 1}, lambda x, *_: near(x, 0, 600), "expected"),
    ("causal_softmax", {"window": 9, "alibi": 0, "scale": 1}, lambda x, *_: near(x, 442, 10), "expected 0 "),
    ("ragged_softmax", {"segments": 9}, lambda x, ends: x.softmax(1), "expected"),
    ("softmax_topk", {"k": 4, "renormalised": 0}, topk, "output 0"),
    ("softmax_topk", {"k": 4, "renormalised": 1}, lambda x: topk(x, lambda rows: rows.flip(1)), "output 0"),
    ("softmax_topk", {"k": 4, "renormalised": 1}, lambda x: (topk(x)[0], topk(x)[1] * 0), "output 1"),
]


@over("name, params, wrong, words", MISTAKES)
def test_a_mistake_is_found(name, params, wrong, words):
    assert words in check(case(name, 70, 512, **params), wrong, "cpu", 1).reason


def test_rows_that_see_nothing_are_zeros_and_not_averages():
    asked = replace(case("masked_softmax", 12, 64), distribution="unseen", timed=False)
    average = lambda x, mask: (x * 3.5).masked_fill(~mask, torch.finfo(x.dtype).min).softmax(1)  # noqa: E731
    assert "expected 0 " in check(asked, average, "cpu", 1).reason


def test_ideal_bytes_and_roofs_are_those_of_the_streams():
    loss = case("cross_entropy", 4096, 128256, dtype="bfloat16", **PLAIN)
    logits, rows = 4096 * 128256 * 2, 4096
    assert operators.moved_bytes(loss) == (logits + 8 * rows, 4 * rows)
    assert operators.moved_bytes(replace(loss, operator="cross_entropy_both")) == (logits + 8 * rows, logits + 4 * rows)
    # Of 4 queries by 6 columns, the last 2 up to columns 2 to 5 are seen: 8 of 24 elements.
    seen = case("causal_softmax", 5, 4, 6, window=2, alibi=0)
    assert operators.get(seen.operator).ideal_bytes(seen) == 4 * (5 * 8 + 120 + 20) + 8 * 20
    assert operators.moved_bytes(seen)[0] == 4 * (120 + 20) + 8 * 20, "all of it is held"
    roofs = {"streams": 7, "copy": 4}
    assert Counter(operator(name).roof for name in NAMES) == roofs
    forms = {name: operator(name).form for name in ("log_softmax", "cross_entropy", "log_softmax_backward")}
    assert list(forms.values()) == [Form.LOGITS, Form.KEYS, Form.VALUES]


def test_prepared_inputs_are_valid_ones():
    _, y = operator("log_softmax_backward").make_inputs(case("log_softmax_backward", 4, 5, 33), "cpu", 1)
    torch.testing.assert_close(y.exp().sum(-1), torch.ones(4, 5))
    asked = case("cross_entropy_backward", 130, 33, layout="broadcast", **LOSS)
    x, target, lse, _ = operator(asked.operator).make_inputs(asked, "cpu", 1)
    torch.testing.assert_close(lse, x.logsumexp(1))
    assert target[[5, 69]].tolist() == [0, 0]


PROFILES = ("log-softmax", "cross-entropy", "masked", "other-rows", "router")


def test_hard_inputs_have_fewer_rows_where_timed_ones_have_many(bundled):
    hard = list(matrix.hard(bundled.profile("family")))
    assert max(asked.elements for asked in hard) == 2**26
    assert {asked.shape for asked in hard if asked.operator == "cross_entropy"} == {(523, 128256)}
    assert set(hard) == set(matrix.hard(bundled.profile("family")[::-1]))


def test_profiles_ask_each_operator_in_real_shapes(bundled):
    timed = [asked for name in PROFILES for asked in bundled.profile(name)]
    assert {asked.operator for asked in timed} == {*NAMES, "softmax"}
    assert all(asked.timed for asked in timed)
    losses = {asked.shape for asked in timed if asked.operator == "cross_entropy_both"}
    assert losses >= {(rows, columns) for rows in (4096, 16384) for columns in (32000, 128256, 151936, 262144)}
    hard = list(matrix.hard(timed))
    assert max(asked.elements for asked in hard) <= 2**26
    asked_hard = [*hard, *bundled.profile("hard-family")]
    assert not any(asked.timed for asked in asked_hard)
    for name in NAMES:
        mine = [asked for asked in asked_hard if asked.operator == name]
        assert {asked.distribution for asked in mine} >= set(operator(name).hard), name
        assert any(asked.columns % 2 for asked in mine), name
        assert any(asked.elements == 0 for asked in mine), name
        assert any(len(asked.shape) > 2 for asked in mine), name
