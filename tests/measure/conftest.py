"""The simulated workers of contests."""

import pytest
from support.simulated import World


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)
