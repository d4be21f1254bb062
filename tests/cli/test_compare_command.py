"""`softbench compare`: what it prints, its exit code, its page."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from support.builders import ended, passport, timed
from support.compared import CASE, contest, new, old

from softbench import cli
from softbench.analysis import compare
from softbench.analysis.compare import summary
from softbench.model import Status
from softbench.records import store
from softbench.render import export
from softbench.texts import share


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs in reports/: `mine` lost 10 %, `gained` 10 %, `wrong` became wrong."""
    monkeypatch.chdir(tmp_path)
    for name, mine, gained, wrong in (
        ("old", 5_000, 5_000, timed(CASE, "wrong", 5_000)),
        ("new", 5_500, 4_500, ended(CASE, "wrong", Status.INCORRECT, "every element is 0")),
    ):
        writer = store.Writer.create(tmp_path / "reports", passport(run_id=name))
        alike = timed(CASE, "alike", 7_000)
        writer.append(contest(CASE, timed(CASE, "mine", mine), timed(CASE, "gained", gained), wrong, alike))
    return tmp_path


def test_the_command_says_status_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "old", "new"]) == 0
    text = capsys.readouterr().out
    order = ["new against old", "Status: 1 fell. Of 3 timed cells 1 slower, 1 faster, 0 cannot be told, 1 the same."]
    order += ["Changes of status", "PASSED  INCORRECT  every element is 0", "By implementation", "Slower: 1 cell"]
    order += ["Faster: 1 cell"]
    places = [text.index(words_) for words_ in order]
    assert places == sorted(places)
    assert "Same: 1 cell" not in text
    assert cli.main(["compare", "old", "new", "--all"]) == 0
    assert "Same: 1 cell" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limit", "code", "says"),
    [
        ("2%", 1, "--fail-on 2% fails: 1 cell fell, 1 cell slower by at least 2 %"),
        ("50", 1, "--fail-on 50 fails: 1 cell fell, 0 cells slower by at least 50 %"),
    ],
)
def test_the_exit_code(folder: Path, capsys: pytest.CaptureFixture[str], limit: str, code: int, says: str) -> None:
    assert cli.main(["compare", "old", "new", "--fail-on", limit]) == code
    assert says in capsys.readouterr().out
    assert cli.main(["compare", "new", "new", "--fail-on", limit]) == 0
    assert "holds: no cell fell" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["-1", "x", "", "%", "1e3", "1001%", "nan", "٣", "2%%", "9" * 400])
def test_a_limit_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], limit: str) -> None:
    assert cli.main(["compare", "old", "new", f"--fail-on={limit}"]) == 2
    assert "is no limit; give per cent from 0 to 1000" in capsys.readouterr().err
    assert share(limit) is None


def test_limits() -> None:
    assert [share(text) for text in ("0", "2%", " 2.5 % ", "1000")] == [0.0, 0.02, 0.025, 10.0]


def test_csv_has_every_cell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "old", "new", "--format", "csv"]) == 0
    rows = {row["implementation"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "mine": "slower",
        "gained": "faster",
        "alike": "same",
        "wrong": "",
    }
    assert float(rows["mine"]["ratio"]) == pytest.approx(1.1, rel=1e-3)
    assert (rows["wrong"]["moved"], rows["wrong"]["reason_after"]) == ("fell", "every element is 0")


def test_markdown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "old", "new", "--format", "markdown"]) == 0
    assert f"| fell | {CASE.id} | wrong | PASSED | INCORRECT | every element is 0 |" in capsys.readouterr().out


def test_the_page_has_every_cell_and_is_the_same_each_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "old", "new", "--output", "page.html"]) == 0
    assert capsys.readouterr().out.endswith("page:    page.html\n")
    page = Path("page.html").read_bytes()
    text = page.decode()
    assert "default-src 'none'" in text
    for words_ in ("<bdi>alike</bdi>", "<bdi>every element is 0</bdi>", "<summary>Same: 1 cell</summary>"):
        assert words_ in text
    assert cli.main(["compare", "old", "new", "--output", "page.html"]) == 0
    assert Path("page.html").read_bytes() == page


def test_only_some_cases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "old", "new", "--cases", "nothing-*"]) == 2
    assert "no case matches 'nothing-*'" in capsys.readouterr().err
    assert cli.main(["compare", "old", "new", "--cases", CASE.id]) == 0


def test_hostile_names_are_shown_and_do_nothing() -> None:
    name = "<script>alert(1)</script>|*"
    found = compare.compare(
        old(*contest(CASE, timed(CASE, name, 5_000))), new(*contest(CASE, timed(CASE, name, 6_000)))
    )
    markdown = export.document_markdown(summary.document(found))
    assert "<script>" not in markdown
    assert r"\|\*" in markdown
