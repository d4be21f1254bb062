"""Fixtures that several files share."""

from __future__ import annotations

from typing import Any

import pytest
from projects import project

from softbench import device


@pytest.fixture
def here(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs pytest in this process on a machine without a GPU; for what ends before anything is measured."""
    monkeypatch.setattr(device, "gpu", lambda: None)
    project(pytester.path)

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess("-p", "softbench.plugin", "--softbench-impls=kernels", *arguments)

    return run
