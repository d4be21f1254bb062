"""Flops, hard inputs and parameters of an operator's file, and what is refused of them."""

from dataclasses import replace

import pytest
from support.grids import over
from support.own_operators import CAPPED

from softbench.cases import matrix, operator_files, operators
from softbench.measure.roof import roofline
from softbench.measure.worker import loading, proving
from softbench.model import Case

pytest.importorskip("torch")
CASE = Case("capped", (3, 4, 8), "float32", "float32", params=(("cap", 2),))
WORDS = ("peaked", "gate-all_inf", "late_spike")


@pytest.fixture
def read(tmp_path):
    def changed(old="", new=""):
        (tmp_path / "capped.py").write_text(CAPPED.replace(old, new))
        loaded = loading.operator(*operator_files.load([tmp_path]))
        operators.use([loaded])
        return loaded

    yield changed
    operators.use(())


def test_flops_follow_from_the_case_and_choose_the_roof(read):
    assert (read().bound, read().roof) == ("arithmetic", "roofline")
    assert operators.counted_flops(CASE) == 12 * 2 + 8 / 2
    many = replace(CASE, params=(("cap", 10**5),))
    assert [roofline.moves_streams(*asked) for asked in ((CASE, True), (many, True), (many, False))] == [True, False, True]


def test_what_is_needed_of_the_first_input_follows_from_a_rows_place(read):
    found = read('flops="rows * cap + columns / 2"', 'needs="min(cap + 1, columns - queries + query - 5)"')
    assert (found.roof, found.needed_share(CASE)) == ("streams", (0 + 0 + 1 + 2) / 32)
    assert found.ideal_bytes(CASE) == 4 * (9 + 96 + 96)


MISTAKES = [
    *(
        ('flops="rows * cap + columns / 2"', f'needs="{text}"', "min(cap, query + 1)', not '" + text)
        for text in ("rows", "max(cap, query)", "query - ", "min(query)")
    ),
    *(
        ("rows * cap + columns / 2", text, f"such as '2 * rows', not '{text}': numbers, rows, columns, cap, ")
        for text in ("column", "rows - 1", "2 / rows", "2 / 0", "9 ** 9", "rows rows")
    ),
    ("(2, 64)", "(-2, 64)", "numbers, rows, columns, with + and *"),
    ('["peaked"]', '"peaked"', "hard is a dict of inputs and their distributions, such as"),
    ('"x": [', '"y": [', "hard: 'y' does not stand here; choose from x, gate"),
    ("peaked", "peked", "hard: 'peked' does not stand here; did you mean 'peaked'?"),
    *(("late_spike", w, f"{w} is one of softbench's own distributions; rename") for w in ("uniform", "drawn_7")),
    ("x[..., -1] = 1000", "x = x * 2", "the hard input late_spike changes nothing, or not always alike"),
    ("x[..., -1] = 1000", "x[:] = torch.rand_like(x)", "changes nothing, or not"),
    ("(x / cap)", "(x)", "the parameter 'cap' is never used; use it, or take it out of params"),
]


@over("old, new, words", MISTAKES)
def test_a_mistake_is_one_line(read, old, new, words):
    try:
        said = proving.fault(read(old, new))
    except ValueError as error:
        said = str(error)
    assert words in said


def test_hard_inputs_are_drawn_as_declared_and_are_cases_of_both_ends(read):
    operator = read()
    assert proving.fault(operator) == ""
    (x, _), (_, gate), (z, _) = (operator.make_inputs(replace(CASE, distribution=w), "cpu", 1) for w in WORDS)
    assert (float(x.amax(-1).min()), float(gate[0, 0].max()), float(z[..., -1].min())) == (20, float("-inf"), 1000)
    asked = [replace(CASE, shape=shape) for shape in ((0, 2), (9, 64), (4, 64), (5, 8), (7, 30))]
    found = [case.id for case in matrix.hard([*asked, replace(CASE, shape=(1, 2), timed=False)])]
    assert found == [f"capped-float32-{size}-cap-2-{word}" for word in WORDS for size in ("5x8", "4x64")]
