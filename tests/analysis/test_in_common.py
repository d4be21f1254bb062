import itertools

from hypothesis import given
from hypothesis import strategies as st
from support.builders import CASE, board, ended, softmax_case, timed, times
from support.grids import over

from softbench.analysis.leaderboard.in_common import only
from softbench.analysis.leaderboard.status_groups import status_groups
from softbench.model import Status
from softbench.render import tables

CASES = [
    softmax_case(rows, columns, dtype, out_dtype=out, layout=layout, distribution=distribution)
    for rows, columns, (dtype, out), layout, distribution in itertools.product(
        (1, 64, 4096),
        (256, 1000, 1001, 4096),
        (("float16", "float16"), ("float16", "float32"), ("float32", "float32")),
        ("contiguous", "offset-1", "padded-3"),
        ("normal", "peaked", "causal_inf", "causal_min"),
    )
]
PLANTED = {
    "only float16": lambda case: case.dtype == "float16",
    "only an output of another dtype": lambda case: case.dtype != case.out_dtype,
    "only views": lambda case: case.layout != "contiguous",
    "only layout padded-3": lambda case: case.layout == "padded-3",
    "only distribution peaked": lambda case: case.distribution == "peaked",
    "only distributions causal_*": lambda case: case.distribution.startswith("causal"),
    "only inputs that are not normal": lambda case: case.distribution != "normal",
    "only widths that are no power of two": lambda case: case.columns not in (256, 4096),
    "only odd widths": lambda case: case.columns % 2,
    "only rows of no whole 16-byte vectors": lambda case: case.columns == 1001,
    "only at least 1000 columns (256 pass)": lambda case: case.columns > 256,
    "only at most 64 rows (4096 pass)": lambda case: case.rows < 100,
    "only 64 rows": lambda case: case.rows == 64,
    "only float32 and views": lambda case: case.dtype == "float32" and case.layout != "contiguous",
    "": lambda case: case.columns == 256 or case.dtype == "float32",
}


@over("text", PLANTED)
def test_what_was_planted_is_named(text):
    fails = PLANTED[text]
    found = only([case for case in CASES if fails(case)], [case for case in CASES if not fails(case)])
    assert text in (found, *found.replace(" or ", "\n").splitlines())


@given(st.sets(st.sampled_from(CASES), min_size=1, max_size=12), st.sets(st.sampled_from(CASES), max_size=12))
def test_any_cases_have_an_answer_or_none(failed, passed):
    text = only(sorted(failed, key=str), sorted(passed - failed, key=str))
    assert text == "" or (passed - failed and text.startswith("only "))


def test_the_failures_of_one_kernel_are_summed_up():
    reason = "wrong from column {0} on: row 0, column {0}: got 0, expected 0.001"
    wrong = [ended(softmax_case(columns=n), "mine", Status.INCORRECT, reason.format(n - 1)) for n in (781, 1000)]
    right = [timed(softmax_case(columns=n), "mine", 1000.0) for n in (512, 1024)]
    refused = [ended(record.case, "other") for record in (*wrong, *right)]
    lines = tables.statuses(board([*wrong, *right, *refused]), 120).splitlines()
    assert lines[0].startswith("INCORRECT x2  mine: wrong from column 780 on")
    assert lines[1] == "    only widths that are no power of two"
    assert lines[3:] == ["UNSUPPORTED x4  other: no"]


def test_two_kernels_with_one_reason_get_no_explanation():
    failed = [ended(softmax_case(columns=1000), name, Status.CRASHED, "died") for name in "ab"]
    (group,) = status_groups(board([*failed, *times(CASE, a=1, b=1)]))
    assert (len(group.records), group.only) == (2, "")


def test_different_mistakes_stay_apart():
    reasons = ("output 1: every element is 0: row 0", "output 1: low precision: row 3", "launch raised OSError: no tile: 13")
    groups = status_groups(board(ended(CASE, f"k{n}", Status.INCORRECT, r) for n, r in enumerate(reasons)))
    assert [group.reason for group in groups] == list(reasons)
