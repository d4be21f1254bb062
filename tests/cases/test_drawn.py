import hashlib
import json
import resource

import torch
from support import projects, searching
from support.grids import over

from softbench.cases.operators import get
from softbench.cases.operators.drawn_cases import QUESTIONS, case_of
from softbench.cases.operators.recipes import Form, row
from softbench.cases.operators.vocabulary import ROW_OPERATORS
from softbench.measure.check import compare
from softbench.model import Case

LIFT = 2.0**64


def inputs_of(case, seed=0):
    return get(case.operator).make_inputs(case, "cpu", seed)


def test_a_seed_asks_the_same_forever():
    """Values as they were when drawn cases were introduced: an id in an old record must name them for good."""
    assert case_of("softmax", 7).id == "softmax-float32-12x9754-offset-4+padded-4-drawn_7"
    wide = Case("softmax", (20, 3000), "float32", "float32", distribution="drawn_123", timed=False)
    data = inputs_of(wide)[0].contiguous().view(torch.uint8).numpy().tobytes()
    assert hashlib.sha256(data).hexdigest().startswith("2de930d1f3a873dc")


@over("operator", ROW_OPERATORS)
def test_values_follow_from_the_word_not_from_the_seed(operator):
    case = Case(operator, (30, 500), "bfloat16", "bfloat16", distribution="drawn_5", timed=False)
    even, odd, again, other = (inputs_of(case, seed) for seed in (2, 3, 84, 35))
    for index, x in enumerate(even):
        assert torch.equal(x.view(torch.int16), again[index].view(torch.int16))
        assert torch.equal(odd[index].view(torch.int16), other[index].view(torch.int16))
        assert not torch.equal(x.view(torch.int16), odd[index].view(torch.int16)), "a check needs two inputs"


def test_the_last_digits_decide_what_is_asked_and_the_others_what_of():
    near, far = case_of("softmax", 42), case_of("softmax", 42 + QUESTIONS)
    assert (near.shape, near.dtype, near.out_dtype, near.layout) == (far.shape, far.dtype, far.out_dtype, far.layout)
    assert not torch.equal(inputs_of(near)[0], inputs_of(far)[0])
    assert (near.distribution, far.distribution) == ("drawn_42", f"drawn_{42 + QUESTIONS}")


def test_rows_are_of_many_kinds():
    rows = [row(str(number), 5000, Form.LOGITS) for number in range(1000)]
    pieces = [piece for found in rows for piece in found]
    assert all(found[0].start == 0 and found[-1].start < 5000 for found in rows)
    assert {piece.mask for piece in pieces} == {"", "-inf", "min"}
    assert any(all(p.mask == "-inf" for p in found) for found in rows), "rows that are all mask"
    assert any(len(found) == 1 and not found[0].noise for found in rows), "constant rows"
    assert any(p.slope > 1 for p in pieces)
    assert min(p.level for p in pieces) < -1e3
    assert max(p.level for p in pieces) > 1e3


def test_rows_keep_to_what_their_operator_has_a_meaning_for():
    for number in range(300):
        assert all(not piece.mask for piece in row(str(number), 300, Form.VALUES))
        keys = row(str(number), 300, Form.KEYS)
        assert not keys[0].mask, "the first causal query sees the first key only"
        assert all(piece.mask != "min" for piece in keys)


def in_parts(x, *, early):
    """Softmax in parts of 256 columns under their own maxima, powers lifted by 2^64."""
    top = x.float().amax(-1, keepdim=True)
    parts = [part.float() for part in x.split(256, -1)]
    tops = [part.amax(-1, keepdim=True) for part in parts]
    powers = [torch.exp(part - own) * LIFT for part, own in zip(parts, tops, strict=True)]
    powers = [power.where(own > -torch.inf, 0.0 * LIFT) for power, own in zip(powers, tops, strict=True)]
    total = sum((p / LIFT).sum(-1, keepdim=True) * torch.exp(own - top) for p, own in zip(powers, tops, strict=True))
    found = []
    for power, own in zip(powers, tops, strict=True):
        scale, rescale = 1 / LIFT / total, torch.exp(own - top)
        found.append(power * (scale * rescale) if early else power * rescale * scale)
    return torch.cat(found, -1).to(x.dtype)


def test_the_fixed_cases_find_a_product_that_leaves_float32(bundled):
    """Gaps of 44 to 87 in bfloat16, below the maximum of another part: 0 came out for 5.9e-29."""
    wrong = {early: [] for early in (True, False)}
    drawn = [case for case in bundled.profile("hard") if case.distribution.startswith("drawn_")]
    for case in [c for c in drawn if c.elements <= 2**18 and c.out_dtype == c.dtype]:
        for early in wrong:
            (x,) = inputs_of(case)
            if not compare(case, (x,), in_parts(x, early=early).contiguous()).ok:
                wrong[early].append(case.id)
    assert len(wrong[True]) >= 3
    assert wrong[False] == []


PLANTED = """
import torch
from softbench import implementation

@implementation(operator="softmax")
def right(case):
    return lambda x: torch.softmax(x.float(), -1).to(getattr(torch, case.out_dtype))

@implementation(operator="softmax", requires=["torch"], known_failures={"*": "declared"})
def declared(case):
    return lambda x: torch.zeros_like(x)

@implementation(operator="softmax")
def planted(case):
    def launch(x):
        y = torch.softmax(x.float(), -1)
        return y.where(y > 1e-25, 0.0).to(getattr(torch, case.out_dtype))
    return launch
"""


def test_the_search_names_a_planted_wrong_kernel(tmp_path, monkeypatch):
    (tmp_path / "kernels.py").write_text(PLANTED)
    log = tmp_path / "log"
    monkeypatch.setattr(searching, "SEEDS", 2)
    monkeypatch.setattr(searching, "MOST_BYTES", 2**20)
    chosen = {"device": "cpu", "seconds": 600, "workers": 0, "log": log, "about": ["softmax"]}
    found = searching.search([tmp_path], cases=12, seed=1, **chosen)
    assert (found.cases, found.answers) == (12, 24)
    assert {wrong.implementation for wrong in found.wrong} == {"planted"}
    one = next(wrong for wrong in found.wrong if "shapes.yaml" not in wrong.again)
    assert "elements wrong" in one.reason
    seed = one.case.rpartition("_")[2]
    assert f"--softbench-drawn-from={seed} -k '{one.case} and planted'" in str(one)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line["cases"] for line in lines) == 12
    assert sum(len(line["wrong"]) for line in lines) == len(found.wrong)
    again = searching.search([tmp_path], cases=12, seed=1, **chosen)
    assert sorted(map(str, again.wrong)) == sorted(map(str, found.wrong))


def test_the_search_stops_at_its_time_and_says_how_far_it_came(tmp_path, monkeypatch, capsys):
    (tmp_path / "kernels.py").write_text(PLANTED)
    for name, value in (("SECONDS", "0.01"), ("CASES", "5"), ("WORKERS", "0"), ("SEED", "1")):
        monkeypatch.setenv(f"SOFTBENCH_SEARCH_{name}", value)
    found, asked, seed = searching.from_environment([tmp_path], "cpu")
    assert (asked, seed) == (5, 1)
    assert found.cases < 5
    assert f"{found.cases} cases" in capsys.readouterr().out


def test_a_thousand_more_are_collected_in_seconds(tmp_path):
    """In processor time, which other work does not slow: 3 s, of which pytest alone takes one."""
    projects.project(tmp_path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = projects.bench(tmp_path, "--collect-only", "-q", "--softbench-drawn=1000", "--softbench-drawn-from=50")
    taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    cells = [line for line in done.stdout.splitlines() if "-drawn_" in line and line.endswith("::torch_eager")]
    assert len(cells) == 1000
    assert cells[0].split("::")[1] == case_of("softmax", 50).id
    assert taken < 10
