"""Differences between the counters of two kernels."""

from dataclasses import astuple, replace

from hypothesis import given
from hypothesis import strategies as st
from support.grids import over

from softbench.analysis.leaderboard.counters import differences
from softbench.model import Traffic

GOOD = Traffic(402667264, 402258688, 285024, 0.0, 50.7, 12582912, 786432, 0, 0, 96.9)
"""Of one call on an H100, as are the twins: `tests/gpu/test_gpu_counters.py` has the kernels."""
TWINS = (
    ("spills: loads 1279 MB from local memory, best 0 MB", 1190152448, 12582912, 3145728, 39976960, 0, 89.6),
    ("uncoalesced: 32.0 sectors per load of a warp, best 16.0", 1526157312, 100663296, 3145728, 0, 0, 97.2),
    ("low occupancy: 3.1 % of the warps that fit, best 96.9 %", 402766592, 12582912, 786432, 0, 0, 3.1),
    ("reads 805 MB, 2.0 times the 403 MB that best reads", 805335552, 25165824, 1572864, 0, 0, 97.7),
    ("49.3 M bank conflicts in shared memory, best 0.0 M", 402688512, 12582912, 786432, 0, 49313314, 60.3),
    ("loads 805 MB, 2.0 times the 403 MB that best loads, from caches", 402667264, 25165824, 1572864, 0, 0, 96.9),
    ("", *astuple(GOOD)[:1], *astuple(GOOD)[5:]),
)
COUNT = st.integers(0, 2**31)
ANY = st.builds(Traffic, COUNT, COUNT, COUNT, *[st.none()] * 2, *[COUNT] * 4, st.floats(0, 100))


def said(own, best):
    return [found.text for found in differences(own, best, "best")]


@over("text, read, counters", ((text, read, counters) for text, read, *counters in TWINS))
def test_a_planted_twin_is_named(text, read, counters):
    twin = Traffic(read, 0, 0, None, None, *counters)
    assert said(twin, GOOD) == [text] * bool(text)
    assert said(GOOD, twin) == said(GOOD, None) == []
    few = [replace(one, **{k: v // 4096 for k, v in vars(one).items() if type(v) is int}) for one in (twin, GOOD)]
    assert [one for one in said(*few) if "low" not in one] == [], "what takes no time is no difference"


def test_loads_are_not_compared_with_those_of_the_tma():
    by_tma = replace(GOOD, load_sectors=0, load_requests=0)
    assert said(replace(GOOD, load_sectors=25165824, load_requests=1572864), by_tma) == []
    assert said(replace(GOOD, read_bytes=805335552), by_tma) == ["reads 805 MB, 2.0 times the 403 MB that best reads"]


@given(ANY, st.lists(st.floats(0.98, 1.02), min_size=8, max_size=8))
def test_nothing_is_named_between_a_kernel_and_its_own_noise(own, noise):
    *counts, warps = (value for value in astuple(own) if value is not None)
    again = [round(count * factor) for count, factor in zip(counts, noise, strict=False)]
    assert said(own, own) == said(Traffic(*again[:3], None, None, *again[3:], warps * noise[-1]), own) == []


@given(ANY, ANY)
def test_one_kernel_at_most_does_more_of_a_thing(one, other):
    causes = [{found.cause for found in differences(*pair, "")} for pair in ((one, other), (other, one))]
    assert causes[0] & causes[1] == set()
    assert said(Traffic(*astuple(one)[:5]), other) == said(one, None) == []
