"""The simulated workers of contests."""

import pytest
from support.simulated import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)
