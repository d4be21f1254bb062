"""How impls/cute lays out rows that are split over the whole GPU: one alone, several through a ring, long ones read twice."""

from __future__ import annotations

import pytest

from impls.cute import _plans
from impls.cute.htile.config import IN_FLIGHT, MAX_THREADS, SHARED_BYTES, SplitTileConfig


@pytest.mark.parametrize(("few", "stages"), [("single", 1), ("split", 7), ("", 7)])
def test_a_split_row_goes_to_every_multiprocessor(few, stages):
    builds = _plans.softmax(524288, "float32", "float32", _plans.HOPPER, True, few)
    (split,) = [build.config for build in builds if isinstance(build.config, SplitTileConfig)]
    assert split.stages == stages
    assert split.ctas == 132
    assert split.teams * split.team >= split.ctas
    assert split.slots == 2 * stages, "who sends a row has read all pairs of the row before the last in its stage"


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(
    ("columns", "itemsize", "stages", "alone"),
    [
        (262152, 4, 7, 1),
        (524296, 2, 7, 1),
        (1048576, 4, 7, 1),
        (2 * 2**20, 4, 3, 1),
        (4 * 2**20, 4, 0, 1),
        (8 * 2**20, 2, 0, 1),
        (5 * 2**20, 4, 0, 0),
        (10**8, 2, 0, 0),
    ],
)
def test_a_split_row_has_a_thread_for_every_vector(columns, itemsize, stages, alone, aligned):
    for is_single, expected in ((False, stages), (True, alone)):
        config = _plans.split_layout(columns, itemsize, _plans.HOPPER, aligned, is_single)
        turns = config.vectors_per_thread if config.stages else IN_FLIGHT * config.bursts
        assert config.cta_vectors * config.ctas >= config.vectors == (columns * itemsize + 15) // 16 + (not aligned)
        assert config.workers * turns >= config.cta_vectors
        assert config.shared_bytes <= SHARED_BYTES["sm_90"]
        assert config.cta_threads <= MAX_THREADS
        assert config.stages == expected
        assert config.is_ring == (expected > 1)


def test_a_ring_has_as_many_stages_as_there_is_room_for():
    stages = [_plans.split_layout(columns, 4, _plans.HOPPER, True).stages for columns in range(2**18, 2**22, 2**12)]
    assert stages == sorted(stages, reverse=True)
    assert {*stages} == {7, 6, 5, 4, 3, 0}


@pytest.mark.parametrize(("ctas", "team", "stages"), [(132, 22, 7), (132, 1, 4), (78, 9, 1), (1, 1, 0)])
def test_a_workspace_has_room_for_the_tag_and_all_pairs(ctas, team, stages):
    config = SplitTileConfig(1048576, 4, ctas, 512, stages, team)
    slots = config.slots * (ctas + -(-ctas // team))
    assert 0 <= config.workspace_words - (16 + 2 * slots) < 16, "a line of 128 bytes for the tag, two words a pair"
