"""Fixtures of the tests of `softbench bisect`."""

import pytest
from support.bisected import committed

from softbench import cli


@pytest.fixture
def commits(cwd, monkeypatch):
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(cwd / "cache"))
    return committed(cwd)


@pytest.fixture
def bisected(commits, capsys):
    def run(*words, status=0):
        code = cli.main(["bisect", *words, "-k", "mine", "--impls", "kernels"])
        shown = capsys.readouterr()
        assert code == status, shown
        return shown.out, shown.err

    return run
