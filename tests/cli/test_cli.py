"""The command `softbench`: from records on disk to pages and tables, and one line for whatever cannot be used."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.builders import ended, passport, softmax_case, timed
from support.paths import ROOT

from softbench import cli
from softbench.cli.command import Command
from softbench.cli.parser import COMMANDS
from softbench.model import Status
from softbench.records import store
from softbench.render import report

CASE = softmax_case(4096, 1024)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run, in its reports/."""
    monkeypatch.chdir(tmp_path)
    writer = store.Writer.create(tmp_path / "reports", passport(run_id="run-1"))
    writer.append(
        [
            timed(CASE, "torch_eager", 10_000),
            timed(CASE, "quick", 5_000),
            ended(CASE, "wrong", Status.INCORRECT, "every element is 0"),
            timed(CASE, "copy", 4_000, role="roof"),
        ]
    )
    return tmp_path


@pytest.mark.parametrize("name", ["latest", "run-1", "reports/run-1.jsonl", "run-1.jsonl"])
def test_report_renders_the_page_from_records_alone(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", name]) == 0
    page = folder / "reports" / "run-1.html"
    assert page.read_text(encoding="utf-8") == report.render(store.read(folder / "reports" / "run-1.jsonl"))
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "latency (ms) / bandwidth (GB/s)" in shown.out
    assert "every element is 0" in shown.out
    assert shown.out.endswith("page:    reports/run-1.html\n")


def test_report_goes_where_it_is_asked_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "reports").rename(folder / "elsewhere")
    assert cli.main(["report", "run-1", "--reports", "elsewhere", "--output", "page.html"]) == 0
    assert (folder / "page.html").read_text(encoding="utf-8").startswith("<!")
    assert sorted(p.name for p in (folder / "elsewhere").iterdir()) == ["run-1.jsonl"]
    assert capsys.readouterr().out.endswith("page:    page.html\n")


def test_table_is_what_a_session_ends_with(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["table", "latest"]) == 0
    text = capsys.readouterr().out
    assert text.index("[4096, 1024]") < text.index("rank  implementation") < text.index("INCORRECT x1  wrong")
    assert not list((folder / "reports").glob("*.html"))


def test_table_as_markdown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["table", "run-1", "--format", "markdown"]) == 0
    assert "| [4096, 1024] |" in capsys.readouterr().out


def test_table_as_csv(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["table", "run-1", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["implementation"]: row["status"] for row in rows} == {
        "torch_eager": "PASSED",
        "quick": "PASSED",
        "wrong": "INCORRECT",
        "copy": "PASSED",
    }
    assert next(float(row["latency_ns"]) for row in rows if row["implementation"] == "quick") == pytest.approx(
        5000, 1e-3
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nope"], "no run 'nope' in reports; the newest there: run-1"),
        (["table", "x" * 5000], "no run 'xxx"),
        (["table", "latest", "--reports", "empty"], "empty: holds no run yet"),
        (["table", "shapes.txt"], "shapes.txt:1: is no text of a softbench run"),
        (["table", "cut.jsonl"], "cut.jsonl: is empty"),
        (["report", "run-1", "--output", "no/such/page.html"], "no/such/page.html: cannot be written (No such file"),
        (["report", "run-1", "--output", "reports"], "reports: cannot be written (Is a directory"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (folder / "shapes.txt").write_text("profiles:\n")
    (folder / "cut.jsonl").write_text("")
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("softbench: ")
    assert words in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: COMMAND"),
        (["table"], "required: RUN"),
        (["table", "run-1", "--format", "xml"], "invalid choice: 'xml'"),
        (["table", "run-1", "--output", "x"], "unrecognized arguments: --output x"),
    ],
)
def test_a_wrong_command_line_says_what_is_known(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_has_an_example_of_each_command(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], [command.name, "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 0
        line, text = command.examples[0]
        assert re.search(rf"\nexamples:\n(?: .*\n)*  {re.escape(line)}\s+{re.escape(text)}\n", capsys.readouterr().out)


def in_a_process(folder: Path, code: str, *, reader_leaves: bool = False) -> tuple[int, str]:
    """Exit code and stderr; with reader_leaves stdout is a pipe whose other end is closed already."""
    command = [sys.executable, "-c", code]
    reader, writer = os.pipe()
    if reader_leaves:
        os.close(reader)
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(writer)
        _, errors = process.communicate(timeout=60)
    if not reader_leaves:
        os.close(reader)
    return process.returncode, errors


def test_neither_torch_nor_pytest_is_imported(folder: Path) -> None:
    """Pages are made on machines without a GPU, and without torch."""
    code = """
import sys
from softbench import cli
assert cli.main(["report", "latest", "--output", "page.html"]) == 0
found = {"torch", "triton", "numpy", "_pytest", "yaml", "softbench.doctor", "softbench.measure.contest"} & set(sys.modules)
assert not found, found
"""
    assert in_a_process(folder, code) == (0, "")


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    code = "import sys; from softbench.cli import main; sys.exit(main(['table', 'latest', '--format', 'csv']))"
    assert in_a_process(folder, code, reader_leaves=True) == (0, "")


def test_some_cases_are_ranked_among_themselves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = softmax_case(64, 512)
    writer = store.Writer.create(folder / "reports", passport(run_id="run-2"))
    writer.append([timed(CASE, "quick", 5_000), timed(other, "quick", 9_000), timed(other, "slow", 90_000)])
    assert cli.main(["table", "run-2", "--format", "csv", "--cases", f"{other.id},nothing-*"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["case"] for row in rows} == {other.id}
    assert [row["implementation"] for row in rows if row["rank"] == "1"] == ["quick"]


def test_cases_that_match_nothing_are_an_error_with_an_example(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["table", "run-1", "--cases", "rmsnorm-*"]) == 2
    said = capsys.readouterr().err
    assert "rmsnorm-*" in said
    assert CASE.id in said


def test_tables_are_as_wide_as_the_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = store.Writer.create(folder / "reports", passport(run_id="run-2"))
    writer.append([timed(CASE, f"implementation_{number:02}", 1e4 + number) for number in range(9)])
    widths = {}
    for is_terminal, columns in ((False, 80), (True, 80), (True, 200)):
        monkeypatch.setenv("COLUMNS", str(columns))
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
            assert cli.main(["table", "run-2"]) == 0
        widths[is_terminal, columns] = max(map(len, capsys.readouterr().out.splitlines()))
    assert widths[True, 80] <= 80 < widths[False, 80] == widths[True, 200] <= 120
