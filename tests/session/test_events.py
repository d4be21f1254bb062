"""--softbench-events."""

import json
import os
import threading
from pathlib import Path

import pytest
from support.builders import ended, passport, softmax_case, timed
from support.projects import bench, project

from softbench.measure.contest.progress import Progress
from softbench.model import Run, Status
from softbench.session.events import Events
from softbench.session.listener import Listener
from softbench.session.settings import SettingsError

CASE = softmax_case()
OPEN = {"tier": "open", "open_because": "a host node"}
TYPES = {
    "begin": {"records": str, "cases": int},
    "stage": {"case": str, "stage": str},
    "cell": {"case": str, "implementation": str, "status": str, "reason": str, "tier": str, "open_because": str}
    | dict.fromkeys(("time_ns", "low_ns", "high_ns", "percent_of_roof"), (float, type(None))),
    "end": {"exit_code": int},
}
"""The fields of every event, and their types; docs/records.md has the same."""


def read(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for event in found:
        fields = TYPES[event["event"]]
        assert event.keys() == {"event", "at", *fields}
        assert all(isinstance(event[name], kind) for name, kind in fields.items())
    return found


def test_a_run(tmp_path):
    done = bench(project(tmp_path), "--softbench-profile=cpu", "--softbench-events=events.jsonl", "-k", "own_right or own_zeros")
    events = read(tmp_path / "events.jsonl")
    begin, *_, end = events
    assert (begin["event"], begin["cases"], Path(begin["records"]).suffix) == ("begin", 1, ".jsonl")
    assert (end["event"], end["exit_code"]) == ("end", done.returncode) == ("end", 1)
    cells = {e["implementation"]: e for e in events if e["event"] == "cell"}
    assert cells.keys() == {"own_right", "own_zeros"}
    right, zeros = cells["own_right"], cells["own_zeros"]
    assert right["time_ns"] > 0
    assert (zeros["status"], zeros["time_ns"]) == ("INCORRECT", None)
    assert zeros["reason"].startswith("every element is 0: row 0, column 0: got ")
    stages = [e["stage"] for e in events if e["event"] == "stage"]
    assert stages[0] == "compiling and checking"
    assert "rounds" in stages
    assert sorted(e["at"] for e in events) == [e["at"] for e in events]


def test_a_stage_is_told_once_and_not_amid_rounds(tmp_path):
    events, seen = Events(tmp_path / "e"), []
    listener = events.told(Listener(lambda progress: seen.append(progress.step)), lambda case: None)
    for stage, step, amid in (("rounds", "1", False), ("rounds", "2", False), ("calls", "3", True), ("rounds", "4", False)):
        listener.progress(Progress(stage, CASE, step, amid_rounds=amid))
    events.end(0)
    assert [(e["event"], e.get("case"), e.get("stage")) for e in read(tmp_path / "e")] == [
        ("stage", CASE.id, "rounds"),
        ("end", None, None),
    ]
    assert seen == ["1", "2", "3", "4"]


def test_hostile_text_stays_one_short_line(tmp_path):
    reason = "\x1b[2Jfirst\nsecond\x00" + "x" * 10_000
    run = Run(passport(), (ended(CASE, "loud", Status.CRASHED, reason), timed(CASE, "one", 1e4, placements=1, **OPEN)))
    events = Events(tmp_path / "e")
    events.told(Listener(), lambda case: run).on_case(CASE)
    events.end(2)
    loud, one, _ = read(tmp_path / "e")
    assert len(loud["reason"]) <= 500
    assert "\x1b" not in loud["reason"]
    assert one["high_ns"] is None  # of one placement nothing is known
    assert (one["tier"], one["open_because"], loud["tier"]) == ("open", "a host node", "")


def test_a_folder_that_is_not_there_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(SettingsError, match=r"--softbench-events: .*nowhere/e: No such file or directory"):
        Events(tmp_path / "nowhere" / "e")


def test_a_reader_that_goes_away_ends_the_events_and_not_the_run(tmp_path):
    pipe, notes = tmp_path / "pipe", []
    os.mkfifo(pipe)

    def read_one():
        with pipe.open() as file:
            file.readline()

    reader = threading.Thread(target=read_one)
    reader.start()
    events = Events(pipe)
    events.told(Listener(note=notes.append), lambda case: None)
    events.begin(tmp_path / "run.jsonl", 3)
    reader.join(10)
    for case in ("a", "b"):
        events._write("stage", case=case, stage="rounds")
    assert notes == [f"--softbench-events: {pipe}: Broken pipe; no further events are written"]
