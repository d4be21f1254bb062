"""Seven families in unusual graphs and cases are sealed, or open with a reason that is listed here.

At the end the tiers are printed as a table, with -s. `corners/around.py` has what is put around a family's launch.
"""

from dataclasses import replace

import pytest
from contests import BUNDLED, HERE, end_workers, run
from support.builders import softmax_case

from softbench.cases import registry
from softbench.measure import plans
from softbench.model import OPEN, SEALED, Status

pytestmark = pytest.mark.gpu

AROUND = registry.find([HERE / "corners"])
FAMILIES = tuple(dict.fromkeys(dict(v.params)["family"] for v in AROUND))
CORNERS = tuple(dict.fromkeys(dict(v.params)["corner"] for v in AROUND))
PLAIN = {v.implementation: v for v in BUNDLED if v.implementation in FAMILIES and v.operator == "softmax"}
CASE = softmax_case(2048, 4096)
SMALL = softmax_case(64, 1024)
LARGE = softmax_case(32000, 65536, "float32")
EMPTY = softmax_case(0, 1024, timed=False)
OPEN_BECAUSE = {"own_memory": "a kernel is given memory that torch did not allocate"}
"""Corner -> the start of the only reason that is right there; all other corners are sealed."""

TABLE = {}


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    print("\n| corner |", " | ".join(FAMILIES), "|\n|---|", "---|" * len(FAMILIES))
    for corner, row in TABLE.items():
        print(f"| {corner} |", " | ".join(row.get(family, "") for family in FAMILIES), "|")


def variants(corner):
    """As implementations of their own: variants of one would meet in a trial."""
    found = []
    for v in AROUND:
        family = dict(v.params)["family"]
        if dict(v.params)["corner"] == corner:
            requires = tuple(dict.fromkeys((*v.requires, *PLAIN[family].requires)))
            found.append(replace(v, implementation=f"{v.implementation}@{family}", requires=requires))
    return found


def family_of(record):
    return record.variant.implementation.rpartition("@")[2]


def require(corner, records, families=FAMILIES):
    """Note the tiers; a family may refuse a case by itself."""
    wrong = []
    for record in records:
        status, reason = record.status, OPEN_BECAUSE.get(corner, "")
        words = (record.tier or status.value, record.open_because, record.reason)
        found = TABLE.setdefault(corner, {})[family_of(record)] = ": ".join(filter(None, words))
        expected = record.tier == (OPEN if reason else SEALED) and record.open_because.startswith(reason)
        is_right = status is Status.PASSED and expected and bool(record.open_because) == bool(reason)
        if not is_right and status is not Status.UNSUPPORTED:
            wrong.append(f"{family_of(record)}: {status.value}, {found}")
    assert sorted(map(family_of, records)) == sorted(families)
    assert wrong == []


@pytest.mark.parametrize("corner", CORNERS)
def test_corners_around_each_family(pool, corner):
    found = run(pool, CASE, variants(corner), 0.3)
    require(corner, found)
    assert all(record.clock("graph") for record in found)


@pytest.mark.parametrize("launches", [1, 500])
def test_graphs_of_one_launch_and_of_500(pool, monkeypatch, launches):
    """No plan of ours has a single launch, so here the bounds of a plan are set to it."""
    monkeypatch.setattr(plans, "MIN_LAUNCHES", launches)
    monkeypatch.setattr(plans, "MAX_LAUNCHES", launches)
    found = run(pool, SMALL, [PLAIN[family] for family in FAMILIES], 0.3)
    require(f"graph of {launches}", found)
    assert {s.launches for record in found for s in record.clock("graph")} == {launches}


def test_empty_case(pool):
    require("empty case", run(pool, EMPTY, [PLAIN[family] for family in FAMILIES]))


@pytest.mark.parametrize("family", FAMILIES)
def test_case_of_17_gb(pool, family):
    """One family at a time: the check alone holds half of an H200's memory."""
    end_workers(pool)
    require("case of 17 GB", run(pool, LARGE, [PLAIN[family]], 0.3), [family])
    end_workers(pool)
