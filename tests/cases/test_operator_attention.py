import math
from dataclasses import replace

import pytest
import torch
from support import builders
from support.grids import over
from support.paths import ROOT

from softbench.cases import matrix
from softbench.cases.operators import get
from softbench.cases.operators.attention import keys_of
from softbench.measure import roof
from softbench.measure.check import check
from softbench.measure.roof import roofline
from softbench.measure.worker.loading import load
from softbench.model import Case
from softbench.render.tables import case_table, summary_table

BOTH = ("attention", "attention_causal")
PACKAGE = ROOT / "softbench"
PLAIN = (1, 2, 33, 64)


def case(operator="attention", shape=(2, 3, 70, 64), dtype="float16", layout="contiguous", distribution="normal", timed=False):
    return Case(operator, shape, dtype, dtype, layout, distribution, timed)


def drawn(asked, seed=1):
    return get(asked.operator).make_inputs(asked, "cpu", seed)


def expected(asked, inputs, rows):
    return get(asked.operator).expected(asked, inputs, rows, "cpu")


def right(asked, weights=lambda p: p, logits=lambda s: s):
    def launch(q, k, v):
        s = logits(q.float() @ k.float().transpose(-1, -2) / math.sqrt(asked.columns))
        if asked.operator == "attention_causal":
            queries, keys = s.shape[-2:]
            s = s.masked_fill(torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries).logical_not(), -math.inf)
        p = torch.softmax(s, -1).nan_to_num(0.0)  # causal rows that see no key
        return (weights(p) @ v.float()).to(q.dtype)

    return launch


def fault(asked, **changes):
    return check(asked, right(asked, **changes), "cpu", 1).reason


@over("operator", BOTH)
def test_expected_agrees_with_sums_key_by_key(operator):
    asked = case(operator, (2, 2, 5, 64), layout="keys-7")
    inputs = drawn(asked, 3)
    wanted = torch.tensor([19, 0, 7, 12, 1])
    (found,) = expected(asked, inputs, wanted)
    for place, row in enumerate(wanted.tolist()):
        b, h, i = row // 10, row // 5 % 2, row % 5
        q, k, v = (x[b, h].double().tolist() for x in inputs)
        seen = range(7 if operator == "attention" else i + 3)
        logits = [math.fsum(x * y for x, y in zip(q[i], k[j], strict=True)) / 8 for j in seen]
        powers = [math.exp(s) for s in logits]
        right = [math.fsum(p * v[j][d] for j, p in enumerate(powers)) / math.fsum(powers) for d in range(64)]
        assert found.values[place].tolist() == pytest.approx(right, rel=1e-12, abs=1e-15)
    (same,) = expected(asked, inputs, slice(0, 20))
    torch.testing.assert_close(same.values[wanted], found.values, rtol=1e-12, atol=1e-15)


def test_slabs_of_few_logits_change_nothing(monkeypatch):
    asked = case(shape=(1, 2, 9, 64))
    inputs = drawn(asked, 3)
    (whole,) = expected(asked, inputs, slice(0, 18))
    monkeypatch.setattr("softbench.cases.operators.attention.LOGITS", 20)
    (parts,) = expected(asked, inputs, slice(0, 18))
    torch.testing.assert_close(parts.values, whole.values, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(parts.slack, whole.slack, rtol=1e-12, atol=0)


@over("asked", matrix.load(ROOT / "shapes.yaml").profile("hard-attention"))
def test_the_plain_formula_passes_every_hard_case(asked):
    if asked.elements == 0 or asked.dtype == "float16":
        assert fault(asked) == ""
    if asked.elements == 0:
        return
    dtype = getattr(torch, asked.dtype)

    def rounded(p):
        top = p.amax(-1, keepdim=True)
        return (p / top.clamp(1e-38)).to(dtype).float() * top

    # P rounded to 16 bits relative to the row's maximum, as every fused kernel has it.
    assert fault(asked, weights=rounded) == ""


@over("operator", BOTH)
@over("dtype", ["float16", "bfloat16"])
def test_scores_in_16_bits_fail_behind_an_offset_only(operator, dtype):
    kind = getattr(torch, dtype)
    assert fault(case(operator, (1, 4, 300, 64), dtype), logits=lambda s: s.to(kind).float()) == ""
    far = case(operator, PLAIN, dtype, "keys-1000", "shifted_1e2")
    assert "got" in fault(far, logits=lambda s: s.to(kind).float())
    assert fault(far) == ""


MISTAKES = [
    ({}, {"weights": lambda p: p.to(torch.bfloat16).float()}),  # 3 bits fewer than float16 has
    ({}, {"weights": lambda p: p * 1.01}),
    ({"operator": "attention_causal"}, {"weights": lambda p: p.flip(-1)}),  # another mask
    (
        {"layout": "keys-129"},
        {"weights": lambda p: torch.cat([p[..., :128], torch.zeros_like(p[..., 128:])], -1)},
    ),  # the last tile's key
    ({"distribution": "growing", "layout": "keys-515"}, {"weights": lambda p: p / p.amax()}),
]


@over("words, changes", MISTAKES)
def test_mistakes_are_found(words, changes):
    assert fault(case(**words), **changes) != ""


def test_causal_rows_without_keys_are_zero_and_nothing_else_is():
    asked = case("attention_causal", (1, 2, 130, 64), layout="keys-100")
    inputs = drawn(asked)
    (found,) = expected(asked, inputs, slice(0, 260))
    zero = (found.values == 0).all(1) & (found.allowed == 0).all(1)
    assert zero.view(2, 130).sum(1).tolist() == [30, 30]
    assert bool(zero.view(2, 130)[:, :30].all())
    keep = right(asked)

    def average(q, k, v):
        out = keep(q, k, v)
        out[:, :, :30] = v.mean(2, keepdim=True)
        return out

    assert "row 0, column 0" in check(asked, average, "cpu", 1).reason


def test_the_distribution_is_that_of_the_logits_along_the_keys():
    asked = case("attention", (1, 2, 4, 64), layout="keys-515", distribution="growing")
    q, k, _ = drawn(asked)
    logits = q.double() @ k.double().transpose(-1, -2) / 8
    assert logits.mean(2).diff().mean() == pytest.approx(60 / 514, rel=0.05)
    tiles = logits[..., :512].view(1, 2, 4, 8, 64).amax(-1)
    assert bool((tiles.diff(dim=-1) > 0).all()), "the maximum moves in every tile of 64 keys"


def test_ideal_work():
    plain, causal = get("attention"), get("attention_causal")
    asked = case(shape=(2, 3, 5, 64), layout="keys-9")
    assert keys_of(asked) == 9
    assert plain.ideal_bytes(asked) == 2 * 6 * 64 * 2 * (5 + 9)
    assert plain.ideal_flops(asked) == 4 * 6 * 5 * 9 * 64
    for queries, keys in ((5, 9), (9, 5), (4, 4), (1, 7), (7, 1)):
        sees = sum(max(0, min(keys, i + 1 + keys - queries)) for i in range(queries))
        assert causal.pairs(case("attention_causal", (1, 1, queries, 64), layout=f"keys-{keys}")) == sees
    assert plain.bound == "arithmetic"
    assert get("softmax").bound == "memory"


def test_the_roof_is_the_nearer_limit():
    long, short = case(shape=(4, 32, 4096, 64)), case(shape=(64, 32, 1, 128), layout="keys-4096")
    assert roofline.is_arithmetic(long)
    assert not roofline.is_arithmetic(short)
    assert not roofline.is_arithmetic(case(shape=(128, 32, 128, 64)))
    for most in roofline.SIDES:
        side = roofline.fitting(long, most)
        flops = 2 * roofline.height(long, side) * side * side
        assert flops == pytest.approx(get("attention").ideal_flops(long), rel=1e-3)
    assert roofline.fitting(case("attention_causal", (1, 1, 64, 64)), 8192) == 1024


def test_the_roofs_copies_move_the_ideal_bytes_and_are_compared():
    asked = case(shape=(2, 3, 5, 64), layout="keys-9")
    inputs = drawn(asked)
    copies = load(PACKAGE / "measure" / "roof" / "host.py", "host_roofline")(asked)(*inputs)
    moved = 2 * sum(y.numel() * y.element_size() for y in copies)
    assert moved == get("attention").ideal_bytes(asked)
    assert roof.verify("roofline", inputs, copies, asked) == ""
    copies[1][0, 0, 8, 63] += 1
    assert roof.verify("roofline", inputs, copies, asked) == "a copy differs from its source"
    assert "where roofline has a product" in roof.verify("roofline", inputs, (*copies, copies[0]), asked)


def test_the_roofs_product_is_compared():
    a, b = roofline.factors(40, 96, torch.bfloat16, "cpu")
    assert roofline.fault((), (a @ b,)) == ""
    assert roofline.fault((), (a @ b.T,)) == "row 0 is not the product's"
    assert roofline.fault((), ((a @ b).index_fill(0, torch.tensor([39]), 0),)) == "row -1 is not the product's"


def test_boards_show_tflops_in_the_place_of_bandwidth():
    asked = case(shape=(4, 32, 4096, 64), timed=True)
    record = replace(builders.timed(asked, "mine", 1e6), ideal_flops=get("attention").ideal_flops(asked))
    softmax = builders.timed(builders.CASE, "mine", 1e4)
    board = builders.board([record, softmax])
    cell = board.cases[0].cells["mine"]
    assert cell.tflop_s == pytest.approx(4 * 128 * 4096 * 4096 * 64 / 1e6 / 1e3, rel=1e-3)
    said = summary_table(board)
    assert said.index("attention, float16: latency (ms) / TFLOP/s") < said.index(f"  1.0000 / {cell.tflop_s:.2f}")
    assert "softmax, float16: latency (ms) / bandwidth (GB/s)" in said
    assert "TFLOP/s" in case_table(board, asked)
    assert "TFLOP/s" not in case_table(board, board.cases[1].case)


def test_only_operators_and_roofs_know_of_it():
    named = {
        "/".join(path.relative_to(PACKAGE).parts[:2])
        for path in PACKAGE.rglob("*.*")
        if path.suffix in (".py", ".js", ".css")
        and "attention" in path.read_text().lower().replace("flash_attention_", "")  # a package's cache
    }
    assert named == {"__init__.py", "cases/operators", "measure/roof"}
