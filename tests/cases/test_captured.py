"""From a model to a profile."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders import ended, run, softmax_case, timed

from softbench.analysis.leaderboard import build
from softbench.measure import device
from softbench.render import export, tables
from softbench.session.selection import select
from softbench.session.settings import Settings


def test_weights_of_profiles_add_up_and_cut_cases_leave_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "gpus", lambda: ())
    path, text = tmp_path / "shapes.yaml", "profiles:\n"
    for name, rows in {"a": 8, "b": 8, "large": 65536}.items():
        group = f"{{operator: softmax, dtype: float32, shapes: [[{rows}, 1024]], weight: 2}}"
        text += f"  {name}: {{description: d, groups: [{group}]}}\n"
    path.write_text(text)
    for profiles, weights in ((("a", "b"), [4]), (("a", "large"), [0, 0])):
        settings = Settings(profiles, path, (), tmp_path, 10.0, 120.0, "", None, "", False, ())
        assert [case.weight for case in select(settings).cases] == weights


def test_the_time_of_all_calls_is_weight_by_time_and_needs_every_case() -> None:
    wide, narrow = softmax_case(weight=3), softmax_case(64, weight=1000)
    records = [timed(wide, "torch_eager", 9_000, spread=0), timed(narrow, "torch_eager", 900, spread=0)]
    records += [timed(wide, "quick", 5_000, spread=0), timed(narrow, "quick", 500, spread=0)]
    board = build(run([*records, timed(wide, "refusing", 1_000), ended(narrow, "refusing")]))
    (quick,) = (row for row in board.ranking if row.implementation == "quick")
    assert (quick.weighted_ns, quick.weighted_speedup) == (3 * 5_000 + 1000 * 500, pytest.approx(927 / 515))
    for text in (tables.ranking_table(board), export.markdown(board)):
        assert "0.5150 ms, 1.80x" in text
        assert "no total" in text
