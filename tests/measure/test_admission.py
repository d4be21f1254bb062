"""Who runs beside whom: a table of memory sizes."""

from __future__ import annotations

import pytest

from softbench.measure.contest.admission import RESERVE, heats

ALWAYS = ["roof", "eager"]
OTHERS = list("abcdefg")


def free_for(entrants: int, each: int) -> int:
    """The least free memory in which so many entrants fit."""
    return next(n for n in range(entrants * each, 2 * entrants * each) if int(n * (1 - RESERVE)) >= entrants * each)


@pytest.mark.parametrize(
    ("room", "sizes"),
    [
        (9, [7]),  # exactly everybody
        (8, [4, 3]),  # one too few: two even heats, not six and one
        (5, [3, 3, 1]),
        (3, [1] * 7),
        (2, [1] * 7),  # only the permanent ones fit; a trial shows what becomes of the others
        (1, [1] * 7),
    ],
)
def test_heats_fill_the_memory_evenly(room: int, sizes: list[int]) -> None:
    found = heats(ALWAYS, OTHERS, 1000, free_for(room, 1000))
    assert [len(heat) - len(ALWAYS) for heat in found] == sizes
    assert all(heat[:2] == ALWAYS for heat in found)
    assert [e for heat in found for e in heat[2:]] == OTHERS


def test_a_byte_less_than_everybody_needs_makes_two_heats() -> None:
    exact = free_for(9, 1000)
    assert len(heats(ALWAYS, OTHERS, 1000, exact)) == 1
    assert len(heats(ALWAYS, OTHERS, 1000, exact - 1)) == 2


def test_memory_that_cannot_be_told_admits_everybody() -> None:
    assert heats(ALWAYS, OTHERS, 1 << 40, 0) == [[*ALWAYS, *OTHERS]]


def test_nothing_fits_and_still_everybody_gets_a_heat() -> None:
    assert [heat[2:] for heat in heats(ALWAYS, OTHERS, 1 << 40, 1)] == [[e] for e in OTHERS]


@pytest.mark.parametrize(("always", "expected"), [(ALWAYS, [ALWAYS]), ([], [])])
def test_without_others(always: list[str], expected: list[list[str]]) -> None:
    assert heats(always, [], 1000, 5000) == expected


def test_entrants_that_take_nothing() -> None:
    assert heats([], ["a", "b"], 0, 100) == [["a", "b"]]
