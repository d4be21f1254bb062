"""How sure a mean over cases is: intervals from the placements, and figures with the digits that these support.

Cases are timed one after the other, so the variance of a mean of logarithms is the sum of theirs, from the placements of each, by
the squares of their shares. Student's t has the degrees of freedom by Satterthwaite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from softbench.model import stats

ERROR = 0.05
"""Chance that the interval of a mean misses what measuring again without end would give."""
FREEDOM = 64
"""More degrees of freedom count as this many: Student's t is then at most 2 % off."""
OF_A_CASE = stats.TOTAL_ERROR / len(stats.LOOKS)
"""The stricter one of the interval of one case, from which its variance follows."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval: from 0 to infinity where the placements are too few to know it."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.high)


def mean(ratios: Sequence[stats.Comparison]) -> Estimate | None:
    """The geometric mean of the ratios of some cases; None without one."""
    finite = [ratio for ratio in ratios if math.isfinite(ratio.ratio) and ratio.ratio > 0]
    if not finite:
        return None
    return around(stats.geometric_mean(ratio.ratio for ratio in finite), finite, [1 / len(finite)] * len(finite))


def around(value: float, ratios: Sequence[stats.Comparison | None], shares: Sequence[float]) -> Estimate:
    """A mean in which the logarithm of each ratio has a share; what else it consists of follows by a rule.

    A ratio of one placement, or of none, counts the mean variance of the others.
    """
    found = list(map(_variance, ratios))
    known = [one[0] for one in found if one]
    if not known:
        return Estimate(value, 0.0, math.inf)
    others = sum(known) / len(known), math.inf
    parts = [(share**2 * variance, own) for share, (variance, own) in zip(shares, (one or others for one in found), strict=True)]
    total = sum(variance for variance, _ in parts)
    if not total:
        return Estimate(value, value, value)
    freedom = sum(v for v, own in parts if own < math.inf) ** 2 / sum(v**2 / own for v, own in parts)
    half = stats.student_t(max(1, min(int(freedom), FREEDOM)), ERROR) * math.sqrt(total)
    return Estimate(value, value * math.exp(-half), value * math.exp(half)) if half < 1 else Estimate(value, 0.0, math.inf)


def _variance(ratio: stats.Comparison | None) -> tuple[float, float] | None:
    """The variance of the mean log-ratio, and its degrees of freedom; None with fewer than two placements."""
    if ratio is None or ratio.placements < 2 or not math.isfinite(ratio.half_width):
        return None
    freedom = ratio.placements - 1
    return (ratio.half_width / stats.student_t(freedom, OF_A_CASE)) ** 2, freedom


def figure(own: Estimate, most: int) -> str:
    """The value with at most `most` decimals, more of one below 0.1, and no more than its interval supports."""
    return f"{own.value:.{_decimals(own, most)}f}"


def plus_minus(own: Estimate | None, most: int, unit: str = "") -> str:
    """The value and half of its interval, "95.8 ±0.1"; the value alone where the interval is not known; "-" for None."""
    if own is None:
        return "-"
    if not own.is_known or own.low == own.high:
        return figure(own, most) + unit
    places = _decimals(own, most)
    half = math.ceil((own.high - own.low) / 2 * 10**places - 1e-6) / 10**places
    return f"{own.value:.{places}f}{unit} ±{half or 10**-places:.{places}f}"


def places(own: Estimate | stats.Comparison, least: int) -> int:
    """Decimals of a ratio and its bounds: at most three more than least, so that no bound off 1 reads as 1."""
    if own.low <= 1 <= own.high:
        return least
    near = min(abs(own.low - 1), abs(own.high - 1))
    return min(max(least, 1 + math.floor(-math.log10(2 * near))), least + 3)


def bracketed(own: Estimate, most: int) -> str:
    """The interval rounded outward, " [1.14, 1.16]"; "" where it is not known."""
    if not own.is_known or own.low == own.high:
        return ""
    scale = 10 ** (places := _decimals(own, most))
    low, high = math.floor(own.low * scale + 1e-6) / scale, math.ceil(own.high * scale - 1e-6) / scale
    return f" [{low:.{places}f}, {high:.{places}f}]"


def _decimals(own: Estimate, most: int) -> int:
    """Decimals down to the first digit of half the interval, to its second one if it begins with 1 or 2."""
    half = (own.high - own.low) / 6
    most += math.floor(-math.log10(own.value)) if 0 < own.value < 1 else 0
    if not own.is_known or half <= 0:
        return most
    return max(0, min(most, -math.floor(math.log10(half) + 1e-9)))
