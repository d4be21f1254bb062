"""What becomes of a cell on its way from its author to its referee."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.builders import variant

from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.preparing import Preparation
from softbench.measure.contest.workers import Answer
from softbench.model import OPEN, SEALED, Case, Status

CASE = Case("softmax", (8, 32), "float32", "float32")
DEAD = Answer(False, status=Status.CRASHED, reason="the process died of SIGKILL", fatal=True)


def entrant_at_referee(**ended: bool) -> Any:
    worker: Any = SimpleNamespace(is_alive=False, **({"was_killed": False, "is_lost": False} | ended))
    return Entrant(variant("mine"), "entrant", tier=SEALED, handed_over="/file", worker=worker)


@pytest.mark.parametrize(
    ("ended", "tiers"), [({"was_killed": True}, ["", OPEN]), ({"is_lost": True}, ["", OPEN]), ({}, [OPEN])], ids=str
)
def test_what_was_killed_at_its_referee_is_handed_over_once_more(ended: dict[str, bool], tiers: list[str]) -> None:
    pool: Any = SimpleNamespace(device="cuda")
    preparation, entrant = Preparation(CASE, pool, 1.0, 0), entrant_at_referee(**ended)
    found = []
    for _ in tiers:
        entrant.tier = SEALED
        preparation._advance(entrant, DEAD)
        found.append(entrant.tier)
    assert found == tiers
    assert entrant.is_open
    assert entrant.open_because == "its sealed copy failed: the process died of SIGKILL"
