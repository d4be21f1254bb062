"""docs/commands.md."""

import argparse
import re
import shlex
import shutil
from pathlib import Path

import pytest
from support.documents import rows
from support.grids import over
from support.paths import ROOT
from support.recipes import blocks, run_softbench, two_runs

from softbench import cli
from softbench.cli.parser import COMMANDS, parser

PATH = ROOT / "docs" / "commands.md"
PAGE = PATH.read_text()
SHOWN = [line for b in blocks(PATH) if not b.language for line in b.text.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = two_runs(tmp_path_factory.mktemp("commands"))
    (claims,) = (block for block in blocks(PATH) if block.language == "yaml")
    (made / "paper.yaml").write_text(claims.text.replace("my_softmax", "mine"))
    (made / "sent").mkdir()
    return made


def subparsers():
    (found,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def test_every_command_stands_there_with_its_options():
    documented = {row[0].strip("`"): re.findall(r"`(--[a-z-]+)`", row[2]) for row in rows(PAGE, "command")}
    options = {
        name: sorted(text for action in sub._actions for text in action.option_strings if text.startswith("--"))
        for name, sub in subparsers().items()
    }
    assert documented == {name: [text for text in own if text != "--help"] for name, own in options.items()}
    assert list(documented) == [command.name for command in COMMANDS]


def test_every_command_is_shown():
    assert {line.split()[1] for line in SHOWN if line.startswith("softbench ")} == {c.name for c in COMMANDS}
    assert all(line.startswith("softbench ") for line in SHOWN)


@over("line", [line for line in SHOWN if line.startswith("softbench ")])
def test_every_line_shown_works(folder, monkeypatch, capsys, line):
    monkeypatch.chdir(folder)
    if " new " in f"{line} ":
        shutil.rmtree("kernels", ignore_errors=True)
    if "--impls kernels" in line and not Path("kernels").is_dir():
        assert cli.main(["new", "my_softmax"]) == 0
    assert run_softbench(shlex.split(line), monkeypatch) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out or line.split()[1] in ("capture", "doctor", "serve", "submit", "review")


@over("name", ["", *subparsers()])
def test_the_help_fits_80_columns_and_speaks_of_runs(monkeypatch, capsys, name):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([*name.split(), "--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert ("RUN is the id of a run" in text) == (
        name not in ("bisect", "capture", "completion", "doctor", "history", "list", "new", "review", "serve", "site")
    )


@over("command", COMMANDS)
def test_every_example_of_the_help_is_understood(command):
    """A redirection, and what stands for more of the same, is the shell's and the reader's."""
    for line, text in command.examples:
        words = shlex.split(line.partition(" >")[0].replace("[RUN ...]", "RUN"))
        assert words[:2] == ["softbench", command.name]
        assert parser().parse_args(words[1:]).command is command
        assert text
