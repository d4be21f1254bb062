"""No cell of an export begins as a spreadsheet's formula; figures and lone signs stay as they are."""

import csv
import io

import pytest
from support.builders import ended, run, softmax_case, timed

from softbench.analysis import leaderboard
from softbench.analysis.document import Table
from softbench.render import export

CASE = softmax_case(16, 256)


@pytest.mark.parametrize("word", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", " =1", "\t=1"])
def test_a_word_that_is_a_formula_is_made_a_text(word):
    board = leaderboard.build(run([ended(CASE, "mine", reason=word, notes=(word,))]))
    (row,) = csv.DictReader(io.StringIO(export.csv(board)))
    assert row["reason"] == row["notes"] == f"'{word}"
    *_, line = export.document_markdown([Table(("what",), ((word,),))]).splitlines()
    assert line.startswith("| '")


def test_signs_and_figures_stay_as_they_are():
    board = leaderboard.build(run([timed(CASE, name, 5e4, spread=0) for name in "ab"]))
    assert [row["mark"] for row in csv.DictReader(io.StringIO(export.csv(board)))] == ["=", "="]
    cells = ("-0.3 %", "+12 ns", "-", "=", "+1.25")
    *_, line = export.document_markdown([Table(tuple("abcde"), (cells,))]).splitlines()
    assert line == f"| {' | '.join(cells)} |"
