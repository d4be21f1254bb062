"""The choice among an implementation's variants, on simulated entrants."""

from dataclasses import replace

from support.simulated import DEAD, FULL, PLAN, at

from softbench.measure.contest.trials import Trials
from softbench.model import OPEN, SEALED, Status


def chosen(world, entrants, prepare=lambda group: None):
    return Trials(PLAN, world.ask, world.rng, prepare).choose(entrants)


def test_the_fastest_variant_is_chosen_and_measured_afresh(world):
    slow, fast, slower = (world.enter("k", ns, warps=w) for w, ns in ((1, 1.2e6), (2, 1e6), (4, 1.5e6)))
    other = world.enter("other")
    assert set(chosen(world, [slow, fast, slower, other])) == {fast, other}
    assert (fast.status, fast.samples, fast.best_of, fast.is_best) == (None, [], 3, True)
    assert (other.status, other.samples, other.best_of) == (None, [], 1)
    for entrant in (slow, slower):
        assert (entrant.status, entrant.best_of, entrant.is_best) == (Status.PASSED, 3, False)
        assert [s.clock for s in entrant.samples] == ["trial"]
        assert entrant.notes == ["not the fastest of 3 variants in the trial: k[warps=2] was"]
    assert other not in [e for op, e in world.log]  # nothing to choose, nothing to time


def test_a_sealed_variant_is_chosen_before_faster_open_ones(world):
    slow, fast = (world.enter("k", ns, tier=SEALED, warps=w) for w, ns in ((1, 1.2e6), (2, 1e6)))
    forged = [world.enter("k", 1e3 * (1 + n), tier=OPEN, warps=4 + n) for n in range(10)]
    assert chosen(world, [*forged, slow, fast]) == [fast]
    assert {n for e in forged for n in e.notes} == {"open, so the sealed k[warps=2] was chosen of 12 variants in the trial"}
    assert slow.notes == ["not the fastest of 12 variants in the trial: k[warps=2] was"]
    slow, fast = (world.enter("open", ns, tier=OPEN, warps=w) for w, ns in ((1, 1.2e6), (2, 1e6)))
    assert chosen(world, [slow, fast]) == [fast]


def test_a_roof_s_fastest_kernel_is_chosen_whatever_its_tier(world):
    slow, fast = (world.enter("copy", ns, "roof", tier=t, warps=1) for ns, t in ((1e6, SEALED), (9e5, OPEN)))
    assert chosen(world, [slow, fast]) == [fast]


def test_many_variants_meet_in_groups(world):
    group = [world.enter("k", 1e6 * (1 + 0.05 * ((i * 7) % 20)), warps=i) for i in range(20)]
    (best,) = chosen(world, group)
    assert best is group[0]
    assert [e.status for e in group if e is not best] == [Status.PASSED] * 19
    assert {e.best_of for e in group} == {20}


def test_a_variant_that_dies_in_the_trial_leaves_its_siblings(world):
    good, better = world.enter("k", 1.2e6, warps=1), world.enter("k", 1e6, warps=4)
    bad = world.enter("k", 0.5e6, warps=2, fault=at("turn", 1, DEAD, 5))
    prepared = []
    assert chosen(world, [good, bad, better], lambda group: prepared.append(list(group))) == [better]
    assert (bad.status, bad.reason, bad.samples) == (Status.CRASHED, DEAD.reason, [])
    assert good.status is Status.PASSED
    assert [good, better] in prepared  # their process went with the sibling: made ready again before they meet


def test_a_variant_not_made_ready_again_keeps_its_reason(world):
    good, bad = world.enter("k", warps=1), world.enter("k", warps=2)

    def prepare(group):
        if bad.is_open:
            bad.settle(Status.COMPILE_ERROR, "no such instruction")

    assert chosen(world, [good, bad], prepare) == [good]
    assert (bad.status, bad.reason) == (Status.COMPILE_ERROR, "no such instruction")


def test_where_every_variant_fails_nobody_is_sent(world):
    no = replace(DEAD, status=Status.RUNTIME_ERROR, fatal=False)
    group = [world.enter("k", warps=w, fault=at("place", 1, no)) for w in (1, 2)]
    assert chosen(world, group) == []
    assert [e.status for e in group] == [Status.RUNTIME_ERROR] * 2


def test_without_room_for_all_each_is_tried_alone(world):
    held = []

    def crowded(operation, placement, turn):
        if operation == "release":
            held.clear()
        if operation != "place":
            return None
        held.append(placement)
        return FULL if len(held) > 2 else None

    slow, fast, slower = (world.enter("k", ns, warps=w, fault=crowded) for w, ns in ((1, 1.2e6), (2, 1e6), (4, 1.5e6)))
    assert chosen(world, [slow, fast, slower]) == [fast]
    assert (fast.status, fast.best_of) == (None, 3)
    assert [e.status for e in (slow, slower)] == [Status.PASSED] * 2
    assert not held


def test_who_has_no_room_alone_keeps_its_reason(world):
    good = world.enter("k", warps=1)
    big = world.enter("k", warps=2, fault=lambda operation, *_: FULL if operation == "place" else None)
    assert chosen(world, [good, big]) == [good]
    assert (big.status, big.reason) == (Status.OUT_OF_MEMORY, FULL.reason)
