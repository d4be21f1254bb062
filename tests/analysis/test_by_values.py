"""Kernels whose time depends on their values."""

from support.builders import roof_of, run, softmax_case, timed
from support.grids import over

from softbench.analysis import leaderboard
from softbench.analysis.leaderboard import CaseBoard, by_values
from softbench.analysis.leaderboard.formatting import section_title, sections, shape_text, shape_texts
from softbench.render import report, tables


def measured(slower, spread):
    records = []
    for times in (1, 2):
        for distribution in ("normal", "peaked"):
            case = softmax_case(columns=1024 * times, distribution=distribution)
            lazy = 6000 * times * (slower[times - 1] if distribution == "peaked" else 1)
            records += [timed(case, "steady", 5000 * times), timed(case, "lazy", lazy, spread=spread), roof_of(case, 4900 * times)]
    return run(records)


@over("slower, spread, ratio", [(1.25, 1e-4, "1.25"), (0.8, 1e-4, "0.80"), (1.01, 1e-4, ""), (1.05, 0.1, "")])
def test_times_that_are_apart_by_two_percent_are_named(slower, spread, ratio):
    run = measured((slower, 1), spread)
    board = leaderboard.build(run)
    found = by_values.notes(board)
    said = f"lazy takes {ratio}x as long with the values peaked as with normal ones, in 1 of 2 cases of softmax."
    assert found == ([said] if ratio else [])
    shown = " ".join(tables.board_tables(board).split())
    assert (said in shown) == (said in report.render(run)) == bool(ratio)
    both = leaderboard.build(measured((slower, 1 / slower), spread))
    assert any(" 0.80x to 1.25x " in note for note in by_values.notes(both)) == (ratio in ("1.25", "0.80"))


def test_other_values_have_a_row_and_an_id():
    board = leaderboard.build(measured((1, 1), 1e-4))
    assert [section_title(key) for key in sections(board)] == ["softmax, float16"]
    assert [shape_text(case.case) for case in board.cases][-1].endswith("] peaked")
    case = softmax_case(distribution="peaked")
    assert (case.id, softmax_case(distribution="peaked", timed=False).id) == (
        "softmax-float16-4096x1024-peaked-timed",
        "softmax-float16-4096x1024-peaked",
    )


def test_rows_say_what_differs():
    own = [CaseBoard(softmax_case(params=(("k", 1), ("scale", s))), {}) for s in (0.125, 0.08838834764831845, 0.0884)]
    assert shape_texts(own[:2]) == ["[4096, 1024] scale 0.125", "[4096, 1024] scale 0.0884"]
    assert shape_texts(own) == [found.case.id for found in own]
