"""compute-sanitizer over the kernels of impls/cute; `sanitized.py` lists the shapes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_are_clean(tool):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.fail("compute-sanitizer is not on the path; it comes with the CUDA toolkit")
    # Only our kernels: torch's are not the question and take most of the time.
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--kernel-regex", "kns=kernel_cutlass"]
    done = subprocess.run(
        [*command, sys.executable, "-W", "ignore", "-m", "tests.gpu.sanitized"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = (done.stdout + done.stderr)[-3000:]
    assert done.returncode == 0, said
    assert "done" in done.stdout, said
    assert "ERROR SUMMARY: 0 errors" in done.stdout or "RACECHECK SUMMARY: 0 hazards" in done.stdout, said
