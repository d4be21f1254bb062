"""What a heat does between the turns that count."""

import pytest
from support.grids import over
from support.simulated import FULL, PLAN, World, placements

from softbench.measure.contest.rounds import LEAD_IN_TURNS, ROUNDS
from softbench.measure.contest.workers import Answer
from softbench.model import Status, stats


def verifications(world, entrant):
    """(placement, turns taken in it) at each verification of an entrant; turns that warm up count in the first."""
    found, placement, turns = [], 0, 0
    for op, e in world.log:
        if e is entrant:
            placement, turns = (placement + 1, 0) if op == "place" else (placement, turns + (op == "turn"))
            found += [(placement, turns)] if op == "verify" else []
    return found


@over("seed", range(6))
def test_any_budget_has_two_placements_and_a_check(monkeypatch, seed):
    world = World(monkeypatch, seed)
    a, b = map(world.enter, "ab")
    assert world.heat(a, b, budget_s=0).stopped == "out of budget after 2 placements"
    assert verifications(world, a) == verifications(world, b)
    assert 1 <= len(verifications(world, a)) <= 2


@pytest.mark.parametrize("first", [1, *range(3, 9)])
def test_a_leader_that_turns_wrong_does_not_pass(world, first):
    wrong = Answer(False, status=Status.INCORRECT, reason="timed call: row 0")
    bad = world.enter("bad", 0.5e6, fault=lambda op, number, _: wrong if op == "verify" and number >= first else None)
    a, b = world.pair(1.1e6)
    world.heat(a, bad, b)
    assert (bad.status, bad.reason, bad.samples) == (Status.INCORRECT, "timed call: row 0", [])
    assert placements(a) == placements(b) == 8


def test_verifications_follow_no_count_of_turns(monkeypatch):
    seen = []
    for seed in range(40):
        world = World(monkeypatch, seed)
        a, b = world.pair(spread=12)
        world.heat(a, b)
        seen += verifications(world, a)
        assert {len(taken) for taken in a.samples[0].ns} == {ROUNDS}
    later = [turns for placement, turns in seen if placement > 1]
    assert {placement for placement, _ in seen} == set(range(1, stats.LOOKS[-1] + 1))
    assert set(later) == set(range(min(later), max(later) + 1))  # after any round that counts
    assert len(set(later)) >= ROUNDS


@pytest.mark.parametrize(("entrants", "lead_in"), [(2, 10), (24, 1)])
def test_behind_new_buffers_turns_count_only_after_a_while(world, entrants, lead_in):
    """On an H200 whatever ran in the first 15 ms took longer, so two kernels of a millisecond need more than one round."""
    world.heat(*(world.enter(f"kernel_{i}") for i in range(entrants)), lead_in_s=0.019)
    second = world.operations().split("p" * entrants)[2].split("v")[0]
    assert len(second) % entrants == 0
    assert lead_in < len(second) // entrants <= lead_in + ROUNDS


def test_one_slow_round_behind_new_buffers_moves_no_time(world):
    """With outputs of 1 GB an H200 is slow for longer than the turns that do not count."""
    pair = world.enter("a", 4e6), world.enter("far", 6e6)
    placed = [0]

    def slow(entrant, request, answer):
        if request["op"] == "place":
            placed[0] = world.now_ns
        is_slow = request["op"] == "turn" and world.now_ns - placed[0] < 38_000_000
        world.now_ns += round(0.1 * answer.data["ns"]) if is_slow else 0
        return Answer(True, {"ns": round(1.1 * answer.data["ns"])}) if is_slow else answer

    world.changed = slow
    world.heat(*pair)
    for entrant in pair:
        firsts = [taken[0] / taken[-1] for taken in entrant.samples[0].ns]
        assert sum(first > 1.05 for first in firsts) > 4
        assert stats.per_launch_ns(entrant.samples[0]) * PLAN.launches == pytest.approx(world.base[entrant], rel=0.005)


def test_a_verification_costs_two_turns_and_not_a_round(world):
    entrants = [world.enter(name, 1e6 * (1 + 0.01 * i)) for i, name in enumerate("abcdefgh")]
    world.heat(*entrants)
    behind = world.operations().split("v")[1:]
    assert any(len(part.split("p")[0]) == LEAD_IN_TURNS + len(entrants) for part in behind)  # one round was left


def test_lack_of_memory_is_compared_again_after_another_turn(world):
    """The comparison that failed may have changed an input for its last launch: the outputs no longer belong to it."""
    answers = iter([FULL])
    a, b = world.enter("a", fault=lambda op, *_: next(answers, None) if op == "verify" else None), world.enter("b")
    assert world.heat(a, b).out_of_memory == []
    assert world.operations(a).partition("v")[2].startswith("tv")
    assert a.is_open
    assert b.is_open


def test_who_never_fits_a_comparison_leaves_a_shared_heat(world):
    never = lambda op, *_: FULL if op == "verify" else None  # noqa: E731
    big, (a, b) = world.enter("big", fault=never), world.pair(1.2e6)
    heat = world.heat(big, a, b)
    assert (heat.out_of_memory, big.is_open, big.samples) == ([big], True, [])
    assert world.operations(big).endswith("r")
    assert [len(e.samples[0].ns) for e in (a, b)] == [8, 8]
    alone = world.enter("alone", fault=never)
    assert world.heat(alone).out_of_memory == []
    assert (alone.status, alone.reason) == (Status.OUT_OF_MEMORY, FULL.reason)
