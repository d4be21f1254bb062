"""Forkservers that start within milliseconds; see `support.warm`."""

import subprocess
from contextlib import contextmanager

import pytest

from softbench.measure.contest.processes import Forkserver
from support import warm
from support.projects import PYTHONPATH

MARK = warm.MARK


@contextmanager
def warmed():
    """Forkservers of this process start so meanwhile."""
    popen = warm.popen(PYTHONPATH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", popen)
        yield


class Forked(Forkserver):
    """A forkserver that has torch from its first moment."""

    def __init__(self, environment):
        with warmed():
            super().__init__(["torch"], environment)
