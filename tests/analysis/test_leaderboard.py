"""Ranks, ties, daggers, heats and the score, on synthetic runs and on the peers measured on an H200."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import pytest
from support import builders as make

from softbench.analysis.leaderboard import NOT_PASSED, Board, Standing, build
from softbench.model import SOURCES_CHANGED, Record, Samples, Status, stats
from softbench.records import retries
from softbench.render import report, tables

CASE = make.softmax_case()
OTHER = make.softmax_case(columns=2048)
HARD = make.softmax_case(timed=False, distribution="masked")


def standing(board: Board, name: str) -> Standing:
    return next(row for row in board.ranking if row.implementation == name)


def marks(records: list[Record]) -> dict[str, str]:
    """Name -> rank and mark, "*" for a winner."""
    cells = build(make.run(records)).cases[0].cells
    return {name: f"{cell.rank or '-'}{cell.mark}{'*' if cell.is_winner else ''}" for name, cell in cells.items()}


def test_a_clear_leader_wins_and_the_rest_are_ranked_behind_it():
    records = [make.timed(CASE, "c", 130_000), make.timed(CASE, "a", 100_000), make.timed(CASE, "b", 110_000)]
    assert marks(records) == {"a": "1*", "b": "2", "c": "3"}


def test_tied_entrants_share_the_rank_and_nobody_wins():
    records = [make.timed(CASE, "a", 100_000), make.timed(CASE, "b", 100_001), make.timed(CASE, "c", 130_000)]
    assert marks(records) == {"a": "1=", "b": "1=", "c": "3"}
    row = standing(build(make.run(records)), "a")
    assert (row.wins, row.ties) == (0, 1)


def test_too_few_placements_cannot_tell():
    records = [make.timed(CASE, "a", 100_000, placements=1), make.timed(CASE, "b", 150_000, placements=1)]
    assert marks(records) == {"a": "1?", "b": "1?"}


def test_a_tie_further_down_is_marked_but_not_counted():
    records = [make.timed(CASE, "a", 90_000), make.timed(CASE, "b", 100_000), make.timed(CASE, "c", 100_001)]
    assert marks(records) == {"a": "1*", "b": "2=", "c": "2="}
    assert standing(build(make.run(records)), "b").ties == 0


def test_alone_on_the_board_nobody_wins_but_beating_a_refusal_counts():
    assert marks([make.timed(CASE, "a", 100_000)]) == {"a": "1"}
    assert marks([make.timed(CASE, "a", 100_000), make.ended(CASE, "b")]) == {"a": "1*", "b": "-"}


def test_bandwidth_share_of_roof_and_speedup_follow_from_the_samples():
    roof, eager = (
        make.timed(CASE, "copy", 10_000, role="roof"),
        make.timed(CASE, "torch_eager", 40_000, role="reference"),
    )
    board = build(make.run([make.timed(CASE, "a", 20_000, spread=0), roof, eager]))
    cell = board.cases[0].cells["a"]
    assert cell.latency_ns == pytest.approx(20_000)
    assert cell.bandwidth_gb_s == pytest.approx(2 * 4096 * 1024 * 2 / 20_000)
    assert cell.percent_of_roof == pytest.approx(50, rel=1e-3)
    assert cell.speedup == pytest.approx(2, rel=1e-3)
    assert standing(board, "a").score == pytest.approx(50, rel=1e-3)
    assert set(board.cases[0].cells) == {"a"}


def test_a_failed_hard_case_marks_the_entrant_everywhere_and_bars_it_from_leading():
    records = [make.timed(c, name, ns) for c in (CASE, OTHER) for name, ns in (("fast", 50_000), ("slow", 100_000))]
    records += [make.ended(HARD, "fast", Status.INCORRECT, "nan"), make.timed(HARD, "slow", 1, samples=())]
    board = build(make.run(records))
    assert all(case.cells["fast"].dagger and case.cells["fast"].rank is None for case in board.cases)
    assert [row.implementation for row in board.ranking] == ["slow", "fast"]
    assert standing(board, "fast").failed_hard == (HARD.id,)
    assert (standing(board, "fast").rank, standing(board, "fast").wins, standing(board, "slow").wins) == (None, 0, 2)


def test_who_is_wrong_only_while_it_is_timed_is_marked_everywhere_and_leads_nowhere():
    wrong = "right in the check, wrong in a timed call: row 0, column 0: got 0"
    fast = [make.timed(CASE, "fast", 50_000), make.ended(OTHER, "fast", Status.INCORRECT, wrong)]
    run = make.run([*fast, *(make.timed(c, "slow", 100_000) for c in (CASE, OTHER))])
    board = build(run)
    assert all(case.cells["fast"].dagger and case.cells["fast"].rank is None for case in board.cases)
    assert [(row.implementation, row.rank) for row in board.ranking] == [("slow", 1), ("fast", None)]
    assert standing(board, "fast").failed_hard == (OTHER.id,)
    assert "† fast is wrong in timed calls of 1 case: " in tables.ranking_table(board)
    assert " is wrong in timed calls of 1 case" in report.render(run)


def test_who_is_wrong_in_the_check_of_a_timed_case_has_no_dagger():
    records = [make.timed(CASE, "a", 50_000), make.ended(OTHER, "a", Status.INCORRECT, "row 0, column 0: got 0")]
    assert standing(build(make.run(records)), "a").failed_hard == ()


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.UNAVAILABLE])
def test_refusing_a_hard_case_brings_no_dagger(status):
    records = [make.timed(CASE, "a", 50_000), make.ended(HARD, "a", status)]
    assert not build(make.run(records)).cases[0].cells["a"].dagger


def test_who_was_not_run_as_somebody_changed_its_files_has_no_dagger_and_is_run_again_by_a_resume():
    changed = make.ended(HARD, "a", Status.RUNTIME_ERROR, f"{SOURCES_CHANGED}: the sources in mine changed")
    assert not build(make.run([make.timed(CASE, "a", 50_000), changed])).cases[0].cells["a"].dagger
    assert retries.is_due([changed], "graph")


def test_a_declared_failure_still_counts_as_not_passed():
    declared = make.ended(OTHER, "a", Status.INCORRECT, "wrong", known_failure="upstream issue")
    records = [make.timed(CASE, "a", 50_000), make.timed(CASE, "b", 60_000), declared, make.timed(OTHER, "b", 60_000)]
    row = standing(build(make.run(records)), "a")
    assert (row.passed, row.timed, row.failed_hard) == (1, 2, ())


def test_a_failing_variant_stands_for_its_implementation_in_a_hard_case_only():
    good, bad = (make.variant("a", params=(("warps", n),)) for n in (4, 8))
    records = [
        make.timed(CASE, "a", 50_000, variant=good, best_of=2),
        make.ended(CASE, "a", Status.TIMEOUT, variant=bad),
    ]
    board = build(make.run(records))
    assert board.cases[0].cells["a"].record.variant == good
    assert [record.variant for record in board.cases[0].others] == [bad]
    hard = [make.timed(HARD, "a", 1, samples=(), variant=good), make.ended(HARD, "a", Status.CRASHED, variant=bad)]
    assert standing(build(make.run(records + hard)), "a").failed_hard == (HARD.id,)


def test_a_variant_with_a_trial_clock_only_is_not_in_the_contest():
    chosen, trial = (make.variant("a", params=(("warps", n),)) for n in (4, 8))
    records = [
        make.timed(CASE, "a", 10_000, clock="trial", variant=trial),
        make.timed(CASE, "a", 50_000, variant=chosen, best_of=2),
    ]
    cell = build(make.run(records)).cases[0].cells["a"]
    assert (cell.record.variant, cell.latency_ns) == (chosen, pytest.approx(50_000, rel=1e-3))


def test_what_shows_the_call_clock_only_is_not_ranked_and_not_covered():
    records = [make.timed(CASE, "a", 50_000), make.timed(CASE, "b", 10_000, clock="call")]
    board = build(make.run(records))
    assert board.cases[0].cells["b"].rank is None
    assert board.cases[0].cells["b"].call_ns == pytest.approx(10_000, rel=1e-2)
    assert (standing(board, "b").passed, standing(board, "b").score) == (0, None)


def heats(a: float, b: float, drift: float) -> list[Record]:
    """a runs in heat 0; b in heat 1, where everything takes `drift` times as long."""
    anchors = []
    for name, ns, role in (("copy", 100_000, "roof"), ("torch_eager", 200_000, "reference")):
        both = (make.samples(ns, heat=0), make.samples(ns * drift, heat=1))
        anchors.append(make.timed(CASE, name, ns, role=role, samples=both))
    return [make.timed(CASE, "a", a), make.timed(CASE, "b", b * drift, heat=1), *anchors]


def test_entrants_of_different_heats_are_ranked_by_their_ratios_not_by_their_times():
    cells = build(make.run(heats(a=120_000, b=110_000, drift=1.3))).cases[0].cells
    assert cells["b"].latency_ns > cells["a"].latency_ns
    assert (cells["b"].rank, cells["b"].is_winner, cells["a"].rank) == (1, True, 2)
    assert cells["b"].percent_of_roof == pytest.approx(100 / 1.1, rel=1e-3)


def test_entrants_of_different_heats_are_never_called_tied():
    assert [marks(heats(110_000, 110_000, 1.3))[name] for name in "ab"] == ["1?", "1?"]


def test_a_heat_without_an_anchor_cannot_tell():
    assert marks([make.timed(CASE, "a", 100_000), make.timed(CASE, "b", 300_000, heat=1)]) == {"a": "1?", "b": "1?"}


def scores(records: list[Record]) -> dict[str, float]:
    return {row.implementation: row.score or 0.0 for row in build(make.run(records)).ranking}


def test_what_is_not_passed_counts_half_of_the_slowest_pass():
    roofs = [make.timed(case, "copy", 10_000, role="roof") for case in (CASE, OTHER)]
    records = [make.timed(CASE, n, ns) for n, ns in (("a", 12_500), ("b", 20_000))]
    records += [make.timed(OTHER, "b", 12_500), make.timed(OTHER, "c", 20_000), make.ended(OTHER, "a")]
    expected = math.sqrt(80 * NOT_PASSED * 50)
    assert scores(records + roofs)["a"] == pytest.approx(expected, rel=1e-3)
    assert scores([r for r in records + roofs if r.status is Status.PASSED])["a"] == pytest.approx(expected, rel=1e-3)


def test_a_refusal_counts_no_more_than_half_of_ones_own_slowest_pass():
    roofs = [make.timed(case, "copy", 10_000, role="roof") for case in (CASE, OTHER)]
    records = [make.timed(CASE, "a", 50_000), make.timed(CASE, "b", 12_500)]
    records += [make.timed(OTHER, "b", 12_500), make.ended(OTHER, "a")]
    assert scores(records + roofs)["a"] == pytest.approx(math.sqrt(20 * NOT_PASSED * 20), rel=1e-3)


def test_a_case_that_nobody_passed_counts_half_of_ones_own_slowest_pass():
    records = [
        make.timed(CASE, "copy", 10_000, role="roof"),
        make.timed(CASE, "a", 12_500),
        make.timed(CASE, "b", 20_000),
    ]
    both = scores([*records, make.ended(OTHER, "a"), make.ended(OTHER, "b")])
    assert both["a"] == pytest.approx(math.sqrt(80 * NOT_PASSED * 80), rel=1e-3)
    assert both["b"] == pytest.approx(math.sqrt(50 * NOT_PASSED * 50), rel=1e-3)


def test_a_slow_pass_counts_as_it_was_measured():
    records = [make.timed(CASE, "copy", 10_000, role="roof"), make.timed(CASE, "a", 200_000)]
    assert scores([*records, make.timed(CASE, "torch_eager", 10_000)])["a"] == pytest.approx(5, rel=1e-3)


def test_without_a_roof_the_fastest_pass_stands_for_it():
    records = [make.timed(CASE, "a", 10_000), make.timed(CASE, "b", 20_000)]
    assert scores(records) == {"a": pytest.approx(100, rel=1e-3), "b": pytest.approx(50, rel=1e-3)}


def test_replacing_any_pass_of_the_peers_by_a_refusal_lowers_that_entrants_score():
    records = make.h200_records()
    before = scores(records)
    passes = [(i, r) for i, r in enumerate(records) if r.status is Status.PASSED and r.role == "entrant"]
    assert len(passes) > 140
    gained = []
    for index, record in passes:
        refused = replace(record, status=Status.UNSUPPORTED, reason="no", samples=())
        after = scores([*records[:index], refused, *records[index + 1 :]])
        name = record.variant.implementation
        if not after[name] < before[name]:
            gained.append((name, record.case.id))
    assert gained == []


def test_ranks_do_not_depend_on_the_order_of_records():
    records = make.h200_records()
    forward, backward = build(make.run(records)), build(make.run(records[::-1]))
    assert [(r.implementation, r.rank, r.wins, r.ties) for r in forward.ranking] == [
        (r.implementation, r.rank, r.wins, r.ties) for r in backward.ranking
    ]
    assert {c.case: {n: (x.rank, x.mark) for n, x in c.cells.items()} for c in forward.cases} == {
        c.case: {n: (x.rank, x.mark) for n, x in c.cells.items()} for c in backward.cases
    }


def test_operators_are_ranked_apart():
    norm = make.softmax_case(operator="rmsnorm")
    records = [
        make.timed(CASE, "a", 50_000),
        make.timed(norm, "b", 10_000, variant=make.variant("b", operator="rmsnorm")),
    ]
    rows = build(make.run(records)).ranking
    assert [(row.operator, row.implementation, row.rank, row.timed) for row in rows] == [
        ("softmax", "a", 1, 1),
        ("rmsnorm", "b", 1, 1),
    ]


def test_an_empty_run_and_one_of_failures_have_no_scores():
    assert build(make.run([])).ranking == ()
    board = build(make.run([make.ended(CASE, "a", Status.CRASHED, "signal 11")]))
    assert not board.has_scores
    assert (standing(board, "a").rank, standing(board, "a").passed, standing(board, "a").timed) == (None, 0, 1)


def test_rendering_imports_no_torch():
    modules = ", ".join(
        f"softbench.{name}" for name in ("analysis.leaderboard", "render.tables", "render.export", "render.report")
    )
    code = f"import sys, {modules}; sys.exit(bool({{'torch', 'plotly', 'triton'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_case_of_many_entrants_is_ranked_by_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank is compared with all behind it: far ones by their extremes alone, or 300 take 18,000 comparisons."""
    calls, compare = [0], stats.compare

    def counted(a: Samples, b: Samples) -> stats.Comparison:
        calls[0] += 1
        return compare(a, b)

    monkeypatch.setattr(stats, "compare", counted)
    records = [make.timed(make.softmax_case(), "copy", 9_000, role="roof")]
    records += [make.timed(make.softmax_case(), f"i{number}", 10_000 * 1.003**number) for number in range(300)]
    ranks = [cell.rank for cell in build(make.run(records)).cases[0].cells.values()]
    assert ranks == sorted(ranks)
    assert calls[0] < 3000
