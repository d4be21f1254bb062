"""`softbench bisect` with contests that are measured."""

import pytest
from support.bisected import CASES

from softbench.records import store

TIMED, CHECKED = (case.id for case in CASES)


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch, warm_runs):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_a_slowdown_is_found(commits, bisected, cwd):
    text, steps = bisected("v1", "HEAD", "--budget", "0.5")
    assert text.startswith(f"{commits['five'][:12]} made mine slower in {TIMED}: "), text
    assert f"{commits['three'][:12]} INCORRECT (" in steps
    names = {r.variant.implementation for run in store.runs(cwd / "reports" / "bisect") for r in store.read(run).records}
    assert f"mine@{commits['four'][:12]}" in names
    assert "mine" not in names


def test_a_wrong_output_is_found(commits, bisected):
    text, _ = bisected("v1", commits["three"], "--profile", "checked")
    assert text.startswith(f"{commits['three'][:12]} broke mine in {CHECKED}: INCORRECT (")


def test_an_option_that_cannot_be_used_is_the_line_of_pytest(bisected):
    _, error = bisected("v1", "HEAD", "--profile", "nope", status=2)
    assert error.splitlines()[-1].startswith("softbench: shapes.yaml: no profile 'nope'; choose from ")
