"""How deaths are counted when one process serves several variants."""

from __future__ import annotations

import pytest
from builders import variant

from softbench.contest import crew as crew_module
from softbench.contest.crew import MAX_DEATHS, Crew
from softbench.contest.entrant import Entrant
from softbench.contest.workers import Answer
from softbench.model import Status


class Process:
    is_alive = True


def test_a_process_that_dies_at_its_start_is_one_death_for_all_its_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Process] = []
    died = Answer(False, status=Status.CRASHED, reason="died", fatal=True)
    monkeypatch.setattr(crew_module, "gather", lambda requests, timeout_s: dict.fromkeys(requests, died))
    crew = Crew("cpu", nursery=Process)

    def hire() -> list[str]:
        entrants = [Entrant(variant("many", params=(("k", k),)), "entrant", slot=k) for k in range(MAX_DEATHS + 1)]
        shared = Process()
        monkeypatch.setattr(crew_module, "Worker", lambda *_: started.append(shared) or shared)
        crew.hire(entrants)
        shared.is_alive = False
        assert {e.status for e in entrants} == {Status.CRASHED}
        return [e.reason for e in entrants]

    for _ in range(MAX_DEATHS):
        assert set(hire()) == {"died"}
    assert "not started again" in hire()[0]
    assert len(started) == MAX_DEATHS
