"""`softbench.run`: the run that it makes, and one line for what it cannot."""

from pathlib import Path

import pytest
from support import whole_operators

import softbench
from softbench import Case

CASE = Case("softmax", (16, 64), "float32", "float32")


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_only_what_is_named_runs_in_the_cases_given_with_their_parameters(tmp_path):
    whole_operators.project(tmp_path)
    cases = [
        Case("router", (8, 64), "float32", "float32", params=(("k", 4),)),
        Case("router", (3, 9), "float16", "float16", "padded-1", timed=False, params=(("k", 2),)),
    ]
    run = softbench.run(["kernels/mine.py"], cases, budget_s=0.2, seed=7, reports="out", operators_in="operators")
    found = {(r.case, r.variant.implementation): r.status.value for r in run.records if r.role != "roof"}
    assert {case for case, _ in found} == set(cases)
    assert {name: found[cases[1], name] for _, name in found if _ == cases[1]} == {
        "last_of_ties": "PASSED",
        "twice_the_first": "INCORRECT",
    }
    assert (run.passport.seed, [p.suffix for p in Path("out").iterdir()]) == (7, [".jsonl"])


@pytest.mark.parametrize(
    ("kernels", "cases", "words"),
    [
        (["torch_eagr"], [CASE], "'torch_eagr' is no file, no folder and no bundled implementation; did you mean 'torch_eager'"),
        (["empty"], [CASE], "these files declare no implementation"),
        (["torch_eager"], [], "no cases; give Case objects, or names of profiles"),
        (["torch_eager"], "publishd", "no profile 'publishd'; did you mean 'published'"),
        (["torch_eager"], [Case("softmax", (4, 4), "float16", "float16", "sideways")], "unknown layout 'sideways'"),
        ("torch_eager", [CASE, CASE], ""),
    ],
)
def test_what_cannot_be_run_is_one_line(kernels, cases, words):
    Path("empty").mkdir()
    if not words:
        assert len(softbench.run(kernels, cases, budget_s=0.2).records) == 2  # and the roof
        return
    with pytest.raises(ValueError, match=words) as error:
        softbench.run(kernels, cases, budget_s=0.2)
    assert "\n" not in str(error.value)
