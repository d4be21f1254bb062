"""Groups of drawn cases in shapes.yaml: what they mean, and one line for every mistake."""

from __future__ import annotations

import pytest

from softbench.cases import matrix
from softbench.cases.matrix import ShapesError, load
from softbench.cases.operators.drawn_cases import case_of

TIMED = "profiles:\n  mine:\n    description: d\n    groups:\n"
UNTIMED = TIMED.replace("    groups", "    timed: false\n    groups")


def failure(path) -> str:
    with pytest.raises(ShapesError) as raised:
        load(path)
    return str(raised.value)


DRAWN_MISTAKES = {
    "drawn: 0": ".drawn: 0 draws nothing; use 1 or more",
    "drawn: many": ".drawn: 'many' is not a size; use a whole number in digits, 0 or more",
    "drawn: 3, drawn_from: -1": ".drawn_from: '-1' is not a size; use a whole number in digits, 0 or more",
    "drawn: 2, drawn_from: 999999999999999999": (
        ".drawn_from: the last seed would be 1000000000000000000; 999999999999999999 is the greatest"
    ),
    "drawn: 3, dtype: float16": ".dtype: a drawn case has its own, which its seed decides; take this key out",
    "drawn: 3, why: ''": ".why: expected a text",
    "drawn: 10001": ": the profile has more than 10000 cases; split it",
    "drawn_from: 3, dtype: float16, shapes: [[1]]": (
        ".drawn_from: the first seed of drawn cases; say with the key 'drawn' how many"
    ),
}


@pytest.mark.parametrize(("words", "message"), DRAWN_MISTAKES.items(), ids=str)
def test_a_mistake_in_a_group_of_drawn_cases_is_one_line(shapes, words, message):
    text = f"{UNTIMED}      - {{operator: softmax, {words}}}\n"
    assert failure(shapes(text)) == f"shapes.yaml:6: profiles.mine.groups[0]{message}"


def test_drawn_cases_are_not_timed(shapes):
    message = failure(shapes(f"{TIMED}      - {{operator: softmax, drawn: 3}}\n"))
    assert message.endswith(
        "groups[0].drawn: drawn cases are checked and not timed; move them to a profile with timed: false"
    )


def test_a_group_draws_every_operator_with_every_seed(shapes):
    found = load(shapes(f"{UNTIMED}      - {{operator: [softmax, rmsnorm], drawn: 2, drawn_from: 7, why: w}}\n"))
    asked = [("softmax", 7), ("softmax", 8), ("rmsnorm", 7), ("rmsnorm", 8)]
    assert found.profile("mine") == tuple(case_of(*each) for each in asked)
    assert matrix.drawn(["softmax", "rmsnorm"], 2, 7) == found.profile("mine")


def test_a_distribution_may_name_a_seed(shapes):
    text = f"{UNTIMED}      - {{operator: softmax, dtype: float16, shapes: [[4, 8]], distribution: drawn_77}}\n"
    (case,) = load(shapes(text)).profile("mine")
    assert case.id == "softmax-float16-4x8-drawn_77"
    assert "'drawn_07' is not" in failure(shapes(text.replace("drawn_77", "drawn_07")))
