"""A run as one HTML page that needs no network and no other file. Pure: the same records give the same bytes."""

from __future__ import annotations

from softbench.leaderboard import BASELINE, build
from softbench.model import Run
from softbench.report.page import page


def render(run: Run, baseline: str = BASELINE) -> str:
    """The page of a run, encodable as UTF-8. Panels that would be empty are left out, the charting library with them."""
    return page(build(run, baseline))
