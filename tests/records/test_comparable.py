import re
from dataclasses import replace

import pytest
from support import agreement as subject
from support.builders import GPU, ended, passport, roof_of, run, softmax_case, timed, variant
from support.children import python
from support.compared import CASE, HARD, OTHER
from support.grids import over
from support.paths import KEPT

from softbench.records import comparable
from softbench.records.comparable import Terms

TORCH = {"torch": "2.11.0"}


def later(clock="graph", **changes):
    return passport(clock, run_id="r2", **changes)


def device(**changes):
    return later(device={**GPU, **changes})


PAIRS = {
    Terms.ONE_BOARD: [
        (later(), ""),
        (later(seed=7, profiles=("quick",), settings={"budget_s": 1.0}), ""),
        (later(packages=TORCH | {"pytest": "9", "flash-attn": "2.8"}), ""),
        (device(driver="580.2"), ""),
    ],
    Terms.SIDE_BY_SIDE: [
        (device(driver="590.1"), "driver 580.1 and 590.1"),
        (device(name="NVIDIA H100"), "name NVIDIA H200 and NVIDIA H100"),
        (device(sms=66), "sms 132 and 66"),
        (device(memory_clock_khz=1), "memory_clock_khz unknown and 1"),
        (later(packages={"torch": "2.12.0"}), "torch 2.11.0 and 2.12.0"),
        (later(packages=TORCH | {"triton": "3"}), "triton missing and 3"),
    ],
    Terms.REFUSED: [
        (later("wall"), "r1 is ranked by the clock 'graph', r2 by 'wall'"),
        (later("wall", device=GPU), "one table never holds times of two clocks"),
    ],
}


@over("terms, other, words", [(terms, *pair) for terms, pairs in PAIRS.items() for pair in pairs])
def test_two_runs(terms, other, words):
    for answer in (comparable.runs(passport(), other), comparable.runs(other, passport())):
        assert answer.terms is terms
        assert bool(answer.reason) == (terms is not Terms.ONE_BOARD)
    assert words in comparable.runs(passport(), other).reason


def test_what_differs_and_does_not_matter_is_noted():
    found = comparable.runs(passport(), replace(device(driver="580.2", pci="0000:1b"), commit="f00"))
    assert found.terms is Terms.ONE_BOARD
    assert found.notes == (
        "two cards: unknown and 0000:1b",
        "two drivers: 580.1 and 580.2",
        "two commits of softbench: 0123abc and f00",
    )


@over(
    "other, words",
    [
        (timed(OTHER, "mine", 5e3), "are two questions"),
        (timed(replace(CASE, timed=False), "mine", 5e3), "are two questions"),
        (timed(CASE, "mine", 5e3, ideal_bytes=7), "16777216 ideal bytes in one run and 7 in the other"),
        (timed(CASE, "mine", 5e3, role="roof"), "one is its roof, the other is not"),
        (ended(replace(HARD, timed=True), "mine"), "nan_first-timed are two questions"),
    ],
)
def test_cells_of_two_questions_are_refused(other, words):
    one = ended(HARD, "mine") if other.case.distribution == HARD.distribution else timed(CASE, "mine", 5e3)
    answer = comparable.questions(one, other)
    assert answer.terms is Terms.REFUSED
    assert words in answer.reason


@over(
    "other, note",
    [
        (variant("mine", source_hash="1234567890"), "two versions of mine: 0000000 and 1234567"),
        (variant("mine", params=(("warps", 4),)), "two variants: mine and mine[warps=4]"),
        (variant("quick"), "two implementations: mine and quick"),
    ],
)
def test_another_answerer_is_noted_and_compared(other, note):
    answer = comparable.questions(timed(CASE, "mine", 5e3), timed(CASE, "mine", 6e3, variant=other))
    assert (answer.terms, answer.notes) == (Terms.ONE_BOARD, (note,))


def test_a_cell_is_no_nearer_than_its_run():
    one, other = timed(CASE, "mine", 5e3), timed(OTHER, "mine", 5e3)
    assert comparable.cells(passport(), one, passport(), one) == comparable.Comparability(Terms.ONE_BOARD)
    further = ((device(sms=1), one), (device(sms=1), other), (passport("wall"), one))
    found = [comparable.cells(passport(), one, *cell).terms for cell in further]
    assert found == [Terms.SIDE_BY_SIDE, Terms.REFUSED, Terms.REFUSED]


CASES = [softmax_case(rows, 1024) for rows in range(4096, 4116)]


def measured(ns=50_000, roof=40_000, **changed):
    records = []
    for number, case in enumerate(CASES):
        records += [roof_of(case, roof, spread=0), timed(case, "a", changed.get(f"c{number}", ns), spread=0)]
    return run(records)


def said(*runs):
    return subject.text(subject.compared(*runs))


def test_the_same_speed_against_the_roof_agrees():
    found = said(measured(), measured(ns=55_000, roof=44_000))
    assert found.startswith("100.0% of 20 cells agree within 1% in % of roof (95% must); off by 0.00%")


def test_what_is_further_apart_is_counted_and_named():
    found = said(measured(), measured(c0=50_550, c1=50_550, c19=50_450))
    assert found.startswith("90.0% of 20 cells")
    assert f"{CASES[0].id} / a: -1.09%" in found


def test_what_cannot_be_compared_is_left_out_and_counted():
    one, other = measured(c0=15_000), measured()
    records = list(other.records)
    records[3] = replace(records[3], variant=replace(records[3].variant, source_hash="1" * 8))
    records[5] = replace(records[5], samples=(replace(records[5].samples[0], cache="warm"),))
    found = said(one, run(records[:-2]))
    assert "% of 16 cells" in found
    for why in ("in one run only", "of another source or variant", "below 20 us", "with a warm L2"):
        assert f"left out: 1 {why}" in found


@over("own", [device(name="NVIDIA H100"), passport("wall")])
def test_another_machine_or_clock_is_refused(own):
    with pytest.raises(ValueError, match="two machines or clocks"):
        subject.compared(measured(), replace(measured(), passport=own))


def test_a_committed_run_agrees_with_itself():
    path = max(path for path in KEPT if "-gpu." in path.name)
    done = python(subject.__file__, path, path)
    assert re.match(r"100\.0% of \d{3} cells agree", done.stdout)
