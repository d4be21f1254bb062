"""What --junitxml says of a run: statuses, reasons, and the figures of a cell as properties."""

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
from support.builders import passport, softmax_case, timed
from support.golden import differences
from support.projects import bench, project

from softbench.model import Run
from softbench.records import store
from softbench.session import replay
from softbench.session.collect import CellItem

MOVES = re.compile(r'(?<=value=")[\d.]+(?:e\+\d+)?(?=")|(?<= time=")[\d.]+|(?<=timestamp=")[^"]+|(?<=hostname=")[^"]+')
PLACE = re.compile(r"[^>\s]*/collect\.py:\d+")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = project(tmp_path_factory.mktemp("junit"))
    bench(folder, "-k", "own_", "--junitxml=junit.xml", "--softbench-seed=1", "--softbench-no-page", code=1)
    return folder


def test_the_whole_file(measured):
    """But for its figures, and for an upper end of an interval, which a busy machine may not know."""
    text = PLACE.sub("collect.py", MOVES.sub("#", (measured / "junit.xml").read_text()))
    text = text.replace('<property name="time_high_us" value="#" />', "").replace("><", ">\n<") + "\n"
    assert differences("junit.xml", text) == ""


def test_the_interval_is_that_of_the_records(measured):
    stored = replay.rounds(store.read(store.find(measured / "reports", "latest")))
    properties = {
        cell.get("name"): {p.get("name"): p.get("value") for p in cell.iter("property")}
        for cell in ET.parse(measured / "junit.xml").iter("testcase")
    }
    assert set(stored) == {name for name, own in properties.items() if "time_us" in own} == {"own_right", "own_mended"}
    for name, cell in stored.items():
        low, high = cell.extra["latency_interval_ns"]
        given = [properties[name].get(key) for key in ("time_low_us", "time_us", "time_high_us")]
        expected = [None if ns is None else str(round(ns / 1e3, 4)) for ns in (low, cell.latency_ns, high)]
        assert given == expected


def test_the_first_cell_of_a_case_has_the_time_of_the_case(measured):
    """Cases are measured ahead of pytest's items, which only report."""
    suite = next(ET.parse(measured / "junit.xml").iter("testsuite"))
    times = [float(cell.get("time", "0")) for cell in suite.iter("testcase")]
    assert max(times) == times[0] > 0.5 * sum(times)
    assert sum(times) == pytest.approx(float(suite.get("time", "0")), rel=0.5)


def test_the_tier_of_a_cell_is_a_property_and_is_stored_with_its_rounds():
    case = softmax_case()
    records = {
        tier: timed(case, tier or "old", 1e4, tier=tier, open_because="a host node" * (tier == "open"))
        for tier in ("", "sealed", "open")
    }
    stored = replay.rounds(Run(passport(), tuple(records.values())))
    assert [own.extra.get("tier") for own in stored.values()] == [None, "sealed", "open"]
    assert [own.group for own in stored.values()] == [f"{case.id} (open)", case.id, f"{case.id} (open)"]
    told = {tier: SimpleNamespace(user_properties=[], _rounds=lambda: None) for tier in records}
    for tier, item in told.items():
        CellItem._note_figures(item, records[tier])
    assert [item.user_properties[1:] for item in told.values()] == [
        [],
        [("tier", "sealed")],
        [("tier", "open"), ("open_because", "a host node")],
    ]
