import math
import random
import statistics

import pytest
from support.grids import over

from softbench.analysis.leaderboard import estimates
from softbench.analysis.leaderboard.estimates import Estimate
from softbench.model import stats

UNKNOWN = Estimate(95.8, 0.0, math.inf)


def test_the_interval_of_one_case_is_students():
    logs = [0.01, 0.02, 0.04, 0.05, 0.03]
    found = estimates.mean([stats.compare_logs(logs)])
    half = stats.student_t(4, 0.05) * statistics.stdev(logs) / math.sqrt(5)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.03 - half, 0.03 + half), rel=1e-6)


def test_the_truth_is_inside_in_19_of_20_runs():
    draw = random.Random(5)
    scatter = [0.001, 0.002, 0.004, 0.03, 0.001, 0.01]
    inside = 0
    for _ in range(400):
        cases = [[draw.gauss(0.1, each) for _ in range(2 + at)] for at, each in enumerate(scatter)]
        found = estimates.mean([stats.compare_logs(logs) for logs in cases])
        inside += found.low < math.exp(0.1) < found.high
    assert 0.93 < inside / 400 < 0.995


def test_the_shares_of_cases_count_in_the_interval_too():
    draw, shares, scatter = random.Random(6), [0.9, 0.06, 0.04], [0.002, 0.02, 0.05]
    inside = 0
    for _ in range(400):
        cases = [[draw.gauss(0.1, each) for _ in range(4)] for each in scatter]
        value = math.exp(sum(share * statistics.mean(logs) for share, logs in zip(shares, cases, strict=True)))
        found = estimates.around(value, [stats.compare_logs(logs) for logs in cases], shares)
        inside += found.low < math.exp(0.1) < found.high
    assert 0.93 < inside / 400 < 0.995
    wider = estimates.around(1.0, [*map(stats.compare_logs, cases[:2]), None], shares)
    assert wider.is_known
    assert not estimates.around(1.0, [None, None, None], shares).is_known


def test_few_placements_have_no_interval():
    one, two = stats.compare_logs([0.1]), stats.compare_logs([0.1, 0.11, 0.12])
    assert estimates.mean([]) is None
    assert [estimates.mean(cases).is_known for cases in ([one], [one, two])] == [False, True]


DIGITS = [
    (Estimate(95.83, 95.78, 95.88), 1, "95.8 ±0.1", " [95.7, 95.9]"),
    (Estimate(83.12, 82.2, 84.0), 1, "83.1 ±0.9", " [82.2, 84.0]"),
    (Estimate(77.28, 74.1, 80.5), 1, "77 ±4", " [74, 81]"),
    (Estimate(1.1512, 1.136, 1.166), 2, "1.15 ±0.02", " [1.13, 1.17]"),
    (Estimate(1.0, 1.0, 1.0), 2, "1.00", ""),
    (Estimate(0.0041, 0.0038, 0.0045), 2, "0.0041 ±0.0004", " [0.0038, 0.0045]"),
    (UNKNOWN, 1, "95.8", ""),
]


@over("own, most, shown, brackets", DIGITS)
def test_digits_follow_from_the_interval(own, most, shown, brackets):
    assert estimates.plus_minus(own, most) == shown
    assert estimates.bracketed(own, most) == brackets
