"""Which tiers of time count beside which others. Pure."""

from collections.abc import Iterable

from softbench.model import OPEN, SEALED


def outranked(tiers: Iterable[str]) -> tuple[str, ...]:
    """The tiers that do not count in a case where entrants have times of these: beside a sealed one, all others."""
    return (OPEN, "") if SEALED in tiers else ()
