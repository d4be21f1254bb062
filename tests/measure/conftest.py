"""The simulated workers of contests."""

from __future__ import annotations

import pytest
from support.simulated import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)
