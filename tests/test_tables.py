"""Terminal tables and exports: the published form, widths, words."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import builders as make
import pytest

from softbench import export, tables
from softbench.leaderboard import Board, build
from softbench.leaderboard.words import LEGEND, short, verdict
from softbench.model import KernelResources, Record, Status, Telemetry

CASE = make.softmax_case(32768, 1024)
WIDE = make.softmax_case(4096, 131072)
HARD = make.softmax_case(timed=False, distribution="masked")


def board(*records: Record, clock: str = "graph") -> Board:
    return build(make.run(records, clock))


def line(text: str, start: str) -> str:
    return next(found for found in text.splitlines() if found.startswith(start))


def test_summary_has_the_published_form():
    shown = board(
        make.timed(CASE, "ours", 48_500, spread=0),
        make.timed(CASE, "compiled", 58_800, spread=0),
        make.timed(WIDE, "ours", 716_900, spread=0),
        make.ended(WIDE, "compiled"),
    )
    text = tables.summary_table(shown)
    assert line(text, "[M, N]").split() == ["[M,", "N]", "ours", "compiled"]
    assert line(text, "[32768, 1024]") == "[32768, 1024]   0.0485 / 2767.38 *  0.0588 / 2282.61"
    assert line(text, "[4096, 131072]") == "[4096, 131072]  0.7169 / 2995.51 *  UNSUPPORTED"


def test_tied_winners_are_all_marked():
    shown = board(make.timed(CASE, "a", 48_500), make.timed(CASE, "b", 48_500.1), make.timed(CASE, "c", 60_000))
    assert [word for word in line(tables.summary_table(shown), "[32768").split() if word in "*=?"] == ["=", "="]


def test_the_conditions_of_a_time_have_signs_that_the_legend_explains_where_they_occur():
    plain = make.timed(CASE, "a", 50_000)
    aside = replace(plain.samples[0], clock="unsteady")
    hot, capped = ((Telemetry(1980, 3201, 700, 60, word),) for word in ("hw_thermal", "power_cap"))
    records = [
        plain,
        make.timed(CASE, "b", 60_000, samples=(make.samples(60_000), aside)),
        make.timed(CASE, "c", 70_000, telemetry=hot),
        make.timed(CASE, "d", 80_000, samples=(make.samples(80_000), make.samples(85_000, "device"))),
        make.timed(CASE, "e", 90_000, samples=(make.samples(90_000), make.samples(94_000, "device")), telemetry=capped),
    ]
    text = tables.summary_table(board(*records))
    signs = [cell.split()[3:] for cell in line(text, "[32768").split("]")[1].split("  ") if cell]
    assert signs == [["*"], ["~"], ["~"], ["o"], []]
    assert text.splitlines()[-1] == "~ GPU throttled or slower in some rounds   o overlapping launches"
    assert text.splitlines()[-2] == LEGEND == tables.summary_table(board(plain)).splitlines()[-1]
    assert "w warm L2 cache; ~ GPU throttled" in export.markdown(board(*records))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_nine_implementations_fit_the_width_by_sections(width):
    records = [make.timed(case, f"implementation_{i}", 50_000 + 1000 * i) for case in (CASE, WIDE) for i in range(9)]
    records += [make.timed(CASE, "x" * 300, 90_000), make.ended(WIDE, "x" * 300, Status.OUT_OF_MEMORY)]
    text = tables.summary_table(board(*records), width)
    *rows, _ = text.splitlines()
    assert max(map(len, rows)) <= width
    assert all(f"implementation_{i}" in text for i in range(9))
    assert sum(row.startswith("[32768, 1024]") for row in rows) == sum(row.startswith("[M, N]") for row in rows) > 1


def test_ranking_shows_the_dagger_and_why():
    shown = board(make.timed(CASE, "a", 50_000), make.timed(CASE, "b", 60_000), make.ended(HARD, "a", Status.INCORRECT))
    text = tables.ranking_table(shown)
    assert "† a fails 1 hard case: softmax-float16-4096x1024-masked" in text
    assert line(text, "   †").split()[:2] == ["†", "a†"]


def test_case_table_of_a_gpu_and_of_a_machine_without_one():
    taken = (make.samples(48_500), make.samples(5_200, clock="call"))
    text = tables.case_table(board(make.timed(CASE, "a", 1, samples=taken, best_of=4), make.ended(CASE, "b")), CASE)
    assert line(text, "  1*").split() == [
        "1*",
        "a",
        "best",
        "of",
        "4",
        "PASSED",
        "0.0485",
        "±0.01",
        "%",
        "2767",
        "5.20",
    ]
    assert "registers" not in text
    kernels = (KernelResources("k", 40, 16, 1024), KernelResources("m", 32, 0, 2048))
    built = make.ended(CASE, "b", Status.COMPILED, "no GPU", kernels=kernels)
    text = tables.case_table(board(built, make.timed(CASE, "a", 5e6, clock="wall"), clock="wall"), CASE)
    assert line(text, "      b").split() == ["b", "COMPILED", "40", "16", "2048"]
    assert "COMPILED 40 regs 16 B stack" in tables.summary_table(board(built))
    with pytest.raises(KeyError):
        tables.case_table(board(built), WIDE)


def test_five_hundred_equal_reasons_are_one_line():
    cases = [make.softmax_case(rows) for rows in range(1, 501)]
    refused = [make.ended(case, "a", reason="a row must fit") for case in cases]
    text = tables.statuses(
        board(*refused, make.ended(CASE, "b", Status.CRASHED, "signal 11\ntrace", reproduce="run it"))
    )
    assert text.splitlines() == ["CRASHED x1  b: signal 11", "    run it", "UNSUPPORTED x500  a: a row must fit"]


def test_declared_failures_say_so_and_those_that_pass_are_reported():
    failing = make.ended(CASE, "a", Status.INCORRECT, "wrong", known_failure="issue 7")
    passing = make.timed(WIDE, "a", 50_000, known_failure="issue 7")
    text = tables.statuses(board(failing, passing))
    assert "INCORRECT (xfail) x1  a: wrong" in text
    assert f"declared to fail, but PASSED: a {WIDE.id}" in text


def test_a_run_with_nothing_timed_shows_counts():
    right, wrong = make.timed(HARD, "a", 1, samples=()), make.ended(HARD, "b", Status.INCORRECT, "nan")
    shown = board(right, wrong)
    assert tables.summary_table(shown) == ""
    assert [row.split() for row in tables.ranking_table(shown).splitlines()[2:]] == [
        ["softmax", "a", "1", "0", "0", "0", "0", "0"],
        ["softmax", "b", "0", "0", "0", "1", "0", "0"],
    ]
    assert verdict(shown) == "Nothing of softmax was timed: 1 cell right, 1 failed, 0 refused."


def test_the_wall_clock_is_not_held_against_a_gpu():
    text = tables.ranking_table(board(make.timed(CASE, "a", 5e6, clock="wall"), clock="wall"))
    assert "says nothing about a GPU" in text


def test_an_empty_run_renders():
    empty = board()
    assert (tables.summary_table(empty), tables.statuses(empty)) == ("", "")
    assert tables.ranking_table(empty).count("\n") == 1
    assert export.csv(empty) == ",".join(export.COLUMNS) + "\n"
    assert export.markdown(empty) == "The run holds no cells.\n"


def test_short_keeps_both_ends():
    assert short("a" * 300 + "z", 9) == "aaaa…aaaz"
    assert short("short\nname") == "short name"


def test_markdown_tables_cannot_be_broken_by_a_name():
    text = export.markdown(board(make.timed(CASE, "a|b<i>", 48_500), make.timed(CASE, "torch_eager", 60_000)))
    assert "a\\|b&lt;i>" in text
    assert "| torch_eager |" in text
    tabled = [row.replace("\\|", "") for row in text.splitlines() if row.startswith("|")]
    assert {row.count("|") for row in tabled[:4]} == {9}


def test_csv_has_one_line_a_cell_and_reads_back():
    records = [make.timed(CASE, "a", 48_500, best_of=2), make.ended(CASE, 'b,"x"', reason="two\nlines")]
    records += [make.timed(CASE, "copy", 40_000, role="roof"), make.timed(CASE, "torch_eager", 9e4, role="reference")]
    rows = list(csv.DictReader(io.StringIO(export.csv(board(*records)))))
    assert [(row["role"], row["implementation"]) for row in rows] == [
        ("entrant", "a"),
        ("entrant", 'b,"x"'),
        ("reference", "torch_eager"),
        ("roof", "copy"),
    ]
    assert float(rows[0]["latency_ns"]) == pytest.approx(48_500, rel=1e-3)
    assert (rows[0]["rank"], rows[1]["reason"], rows[1]["latency_ns"]) == ("1", "two\nlines", "")


def test_an_interval_of_two_placements_that_differ_bursts_no_table():
    text = tables.case_table(board(make.timed(CASE, "a", 50_000, placements=2, spread=0.3)), CASE)
    assert "±>100 %" in text
    assert max(map(len, text.splitlines())) < 120
