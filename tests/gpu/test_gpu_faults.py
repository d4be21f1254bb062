"""What corrupts a context, hangs or fills the card."""

import pytest
from contests import BUNDLED, HERE, TWINS, named
from support.builders import softmax_case

from softbench.cases import registry
from softbench.measure.worker import in_process
from softbench.model import Status

pytestmark = pytest.mark.gpu

OFFENDERS = {v.implementation: v for v in registry.find([HERE / "offenders"])}
HONEST = TWINS["twin_a"]
CASES = [softmax_case(rows, 4096) for rows in (4096, 2048)]

EXPECTED = {
    "illegal_address": (Status.RUNTIME_ERROR, "illegal memory access"),
    "endless_kernel": (Status.TIMEOUT, "no end of compiling within 20 s"),
    "takes_all_memory": (Status.OUT_OF_MEMORY, "out of memory"),
    "leaks": (Status.OUT_OF_MEMORY, ""),
    "wrong_when_captured": (Status.INCORRECT, "timed call"),
    "breaks_while_timed": (Status.RUNTIME_ERROR, "illegal memory access"),
    "never_joins_when_captured": (Status.INCORRECT, "work on another stream"),
}


def contest(pool, case, offender):
    found = named(pool, case, [OFFENDERS[offender], HONEST], 4.0, timeout_s=20.0)
    return found[offender], found["twin_a"]


@pytest.mark.parametrize("offender", EXPECTED)
def test_costs_its_own_cell(pool, offender):
    status, words = EXPECTED[offender]
    for case in CASES:  # the second shows that a fresh process came after the first
        culprit, honest = contest(pool, case, offender)
        assert (culprit.status, words in culprit.reason) == (status, True), culprit.reason
        assert not culprit.samples
        assert honest.status is Status.PASSED
        assert len(honest.clock("graph")[0].ns) >= 8


def test_compute_sanitizer_names_the_access_that_was_out_of_bounds():
    found = in_process.sanitized(CASES[1], OFFENDERS["illegal_address"], 1, 120.0)
    assert found.startswith("Invalid __global__ write of size"), found
    assert in_process.sanitized(CASES[1], HONEST, 1, 120.0) == ""


def test_what_cannot_be_captured_has_a_call_time_and_no_rank(pool):
    culprit, honest = contest(pool, CASES[0], "synchronises")
    assert culprit.status is Status.PASSED
    assert [s.clock for s in culprit.samples] == ["call"]
    assert any("cannot be captured" in note for note in culprit.notes)
    assert honest.clock("graph")


def test_what_does_not_fit_together_runs_in_heats_with_the_baseline_in_each(pool):
    """17 GB move at a launch: two placements of four entrants are more than a card of 141 GB holds."""
    baseline = next(v for v in BUNDLED if v.implementation == "torch_eager")
    case = softmax_case(1 << 19, 8192)
    records = named(pool, case, list(TWINS.values()), 5.0, baselines={"softmax": baseline}, seed=3)
    assert {r.status for r in records.values()} == {Status.PASSED}
    heats = {name: {s.heat for s in r.clock("graph")} for name, r in records.items()}
    assert len(heats["torch_eager"]) >= 2
    assert set().union(*(heats[name] for name in TWINS)) == heats["torch_eager"]
    assert all(len(heats[name]) == 1 for name in TWINS)
