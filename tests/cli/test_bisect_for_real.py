"""`softbench bisect` with contests that are measured."""

import pytest
from support import warm  # noqa: F401  # it starts processes
from support.bisected import CASES, committed

from softbench import cli
from softbench.records import store

TIMED, CHECKED = (case.id for case in CASES)


@pytest.fixture
def commits(cwd):
    return committed(cwd)


@pytest.fixture
def bisected(commits, cwd, monkeypatch, capsys, warm_runs):
    """Runs the command; its output, and what it says on the way or as its error."""
    for name, value in (("CUDA_VISIBLE_DEVICES", ""), ("OMP_NUM_THREADS", "1"), ("SOFTBENCH_CACHE_DIR", str(cwd / "cache"))):
        monkeypatch.setenv(name, value)

    def run(*words, status=0):
        code = cli.main(["bisect", *words, "-k", "mine", "--impls", "kernels"])
        shown = capsys.readouterr()
        assert code == status, shown
        return shown.out, shown.err

    return run


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
