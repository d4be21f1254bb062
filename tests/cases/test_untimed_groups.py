"""Groups of cases in shapes.yaml that are only checked: drawn ones, and one line for every mistake."""

import pytest
from support.grids import over

from softbench.cases import matrix
from softbench.cases.matrix import PlaceError, load
from softbench.cases.operators.drawn_cases import case_of

TIMED = "profiles:\n  mine:\n    description: d\n    groups:\n"
UNTIMED = TIMED.replace("    groups", "    timed: false\n    groups")


def failure(path):
    with pytest.raises(PlaceError) as raised:
        load(path)
    return str(raised.value)


OF_SOFTMAX = "operator: softmax, "
OF_ATTENTION = "operator: attention, dtype: float16, "
TOO_LARGE = "a shape of more than 2^48 elements fits no memory"
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
MISTAKES = {
    **{OF_SOFTMAX + words: message for words, message in DRAWN_MISTAKES.items()},
    # Records of such a case could not be read again: their bytes and times would not fit 64 bits.
    OF_SOFTMAX + f"dtype: float32, shapes: [[{2**25}, {2**24}]]": f".shapes[0]: {TOO_LARGE}",
    OF_SOFTMAX + f"dtype: float32, shapes: [[0, {2**49}]]": f".shapes[0]: {TOO_LARGE}",
    OF_SOFTMAX + f"dtype: float32, shapes: [{[1] * 17}]": ".shapes[0]: has 17 dimensions; 16 are the most",
    OF_SOFTMAX + "dtype: float16, shapes: [[4, 8]], layout: keys-9": (
        ": softmax has no keys, so no layout 'keys-9'; take keys-9 out of it"
    ),
    OF_ATTENTION + "shapes: [[4, 8]]": ": attention needs a shape [batch, heads, queries, head dimension], not [4, 8]",
    "operator: attention, dtype: float32, shapes: [[1, 1, 4, 64]]": ": attention is float16 or bfloat16, in and out, not float32",
    OF_ATTENTION + "out_dtype: float32, shapes: [[1, 1, 4, 64]]": (
        ": attention is float16 or bfloat16, in and out, not float16 to float32"
    ),
    OF_ATTENTION + "shapes: [[1, 1, 4, 64]], layout: broadcast": (
        ": attention has no layout 'broadcast': all keys would be one; choose another"
    ),
}


@over("words, message", MISTAKES.items())
def test_a_mistake_is_one_line(shapes, words, message):
    assert failure(shapes(f"{UNTIMED}      - {{{words}}}\n")) == f"shapes.yaml:6: profiles.mine.groups[0]{message}"


def test_drawn_cases_are_not_timed(shapes):
    message = failure(shapes(f"{TIMED}      - {{operator: softmax, drawn: 3}}\n"))
    assert message.endswith("groups[0].drawn: drawn cases are checked and not timed; move them to a profile with timed: false")


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
