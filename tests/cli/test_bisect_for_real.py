"""`softbench bisect` with contests that are measured."""

import os
import subprocess
import sys

import pytest
from support import warm
from support.bisected import CASES, committed
from support.projects import PYTHONPATH

from softbench.records import store

TIMED, CHECKED = (case.id for case in CASES)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bisected")
    return folder, committed(folder)


def bisected(folder, *words):
    own = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "SOFTBENCH_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "softbench", "bisect", *words, "-k", "mine", "--impls", "kernels"]
    with warm.popen(PYTHONPATH)(
        command,
        cwd=folder,
        env={**os.environ, **own, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output, errors = process.communicate(timeout=120)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def test_a_slowdown_is_found(project):
    folder, commits = project
    done = bisected(folder, "v1", "HEAD", "--budget", "0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{commits['five'][:12]} made mine slower in {TIMED}: "), done.stdout
    assert f"{commits['three'][:12]} INCORRECT (" in done.stderr
    names = {r.variant.implementation for run in store.runs(folder / "reports" / "bisect") for r in store.read(run).records}
    assert f"mine@{commits['four'][:12]}" in names
    assert "mine" not in names


def test_a_wrong_output_is_found(project):
    folder, commits = project
    done = bisected(folder, "v1", commits["three"], "--profile", "checked")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{commits['three'][:12]} broke mine in {CHECKED}: INCORRECT (")


def test_an_option_that_cannot_be_used_is_the_line_of_pytest(project):
    done = bisected(project[0], "v1", "HEAD", "--profile", "nope")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("softbench: shapes.yaml: no profile 'nope'; choose from ")
