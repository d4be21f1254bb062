"""Groups of calls on one core after another, and afterwards on all of them as before."""

from __future__ import annotations

import os

import pytest

from softbench.measure import cores


def test_each_turn_is_on_one_core_and_the_end_on_all() -> None:
    before = os.sched_getaffinity(0)
    seen = [os.sched_getaffinity(0) for _ in cores.in_turn(len(before))]
    assert all(len(cpus) == 1 for cpus in seen)
    assert set.union(*seen) == before
    assert os.sched_getaffinity(0) == before


def test_more_turns_than_cores_and_an_error_in_one() -> None:
    before = os.sched_getaffinity(0)
    assert list(cores.in_turn(len(before) + 1)) == list(range(len(before) + 1))
    turns = cores.in_turn(2)
    next(turns)
    with pytest.raises(RuntimeError):
        turns.throw(RuntimeError())
    assert os.sched_getaffinity(0) == before
