"""The crew of workers that the tests of one file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from softbench import device
from softbench.contest.crew import Crew


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    if device.gpu() is None:
        pytest.fail("this test needs a GPU; leave it out with -m 'not gpu'")
    crew = Crew("cuda")
    yield crew
    crew.close()
