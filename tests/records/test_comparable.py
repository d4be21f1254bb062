"""What one table may hold: on one board, side by side as other machines, or not at all, and why."""

from dataclasses import replace

from support.builders import GPU, ended, passport, timed, variant
from support.compared import CASE, HARD, OTHER
from support.grids import over

from softbench.records import comparable
from softbench.records.comparable import Terms

TORCH = {"torch": "2.11.0"}


def device(**changes):
    return passport(run_id="r2", device={**GPU, **changes})


PAIRS = [
    (passport(run_id="r2"), Terms.ONE_BOARD, ""),
    (passport(run_id="r2", seed=7, profiles=("quick",), settings={"budget_s": 1.0}), Terms.ONE_BOARD, ""),
    (passport(run_id="r2", packages=TORCH | {"pytest": "9", "flash-attn": "2.8"}), Terms.ONE_BOARD, ""),
    (device(driver="580.2"), Terms.ONE_BOARD, ""),
    (device(driver="590.1"), Terms.SIDE_BY_SIDE, "driver 580.1 and 590.1"),
    (device(name="NVIDIA H100"), Terms.SIDE_BY_SIDE, "name NVIDIA H200 and NVIDIA H100"),
    (device(sms=66), Terms.SIDE_BY_SIDE, "sms 132 and 66"),
    (device(memory_clock_khz=1), Terms.SIDE_BY_SIDE, "memory_clock_khz unknown and 1"),
    (passport(run_id="r2", packages={"torch": "2.12.0"}), Terms.SIDE_BY_SIDE, "torch 2.11.0 and 2.12.0"),
    (passport(run_id="r2", packages=TORCH | {"triton": "3"}), Terms.SIDE_BY_SIDE, "triton missing and 3"),
    (passport("wall", run_id="r2"), Terms.REFUSED, "r1 is ranked by the clock 'graph', r2 by 'wall'"),
    (passport("wall", run_id="r2", device=GPU), Terms.REFUSED, "one table never holds times of two clocks"),
]


@over("other, terms, words", PAIRS)
def test_two_runs(other, terms, words):
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
        (replace(timed(CASE, "mine", 5e3), case=replace(CASE, timed=False)), "are two questions"),
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
        (replace(variant("mine"), source_hash="1234567890"), "two versions of mine: 0000000 and 1234567"),
        (replace(variant("mine"), params=(("warps", 4),)), "two variants: mine and mine[warps=4]"),
        (variant("quick"), "two implementations: mine and quick"),
    ],
)
def test_another_answerer_is_noted_and_compared(other, note):
    answer = comparable.questions(timed(CASE, "mine", 5e3), timed(CASE, "mine", 6e3, variant=other))
    assert (answer.terms, answer.notes) == (Terms.ONE_BOARD, (note,))


def test_a_cell_is_no_nearer_than_its_run():
    one, other = timed(CASE, "mine", 5e3), timed(OTHER, "mine", 5e3)
    assert comparable.cells(passport(), one, passport(), one) == comparable.Comparability(Terms.ONE_BOARD)
    assert comparable.cells(passport(), one, device(sms=1), one).terms is Terms.SIDE_BY_SIDE
    assert comparable.cells(passport(), one, device(sms=1), other).terms is Terms.REFUSED
    assert comparable.cells(passport(), one, passport("wall"), one).terms is Terms.REFUSED
