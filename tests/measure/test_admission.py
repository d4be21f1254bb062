"""Which entrants share a heat: a table of memory sizes."""

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


@pytest.mark.parametrize(
    ("always", "others", "each", "free", "expected"),
    [
        (ALWAYS, OTHERS, 1000, free_for(9, 1000), [[*ALWAYS, *OTHERS]]),
        (ALWAYS, OTHERS, 1000, free_for(9, 1000) - 1, [[*ALWAYS, *"abcd"], [*ALWAYS, *"efg"]]),
        (ALWAYS, OTHERS, 1 << 40, 0, [[*ALWAYS, *OTHERS]]),  # unknown memory admits everybody
        (ALWAYS, OTHERS, 1 << 40, 1, [[*ALWAYS, other] for other in OTHERS]),  # where nothing fits all have a heat
        (ALWAYS, [], 1000, 5000, [ALWAYS]),
        ([], [], 1000, 5000, []),
        ([], ["a", "b"], 0, 100, [["a", "b"]]),  # entrants that take nothing
    ],
)
def test_the_ends_of_the_table(
    always: list[str], others: list[str], each: int, free: int, expected: list[list[str]]
) -> None:
    assert heats(always, others, each, free) == expected
