"""The command line as argparse reads it: every command with its arguments, and an example of each."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable

from softbench import __version__
from softbench.cli import boards, compare, completion, doctor, drawings, experiments, history, listing, new, show
from softbench.cli.command import RUN, Command

COMMANDS: tuple[Command, ...] = (
    boards.REPORT,
    boards.TABLE,
    compare.COMMAND,
    history.COMMAND,
    show.COMMAND,
    drawings.FIGURE,
    drawings.BADGE,
    listing.COMMAND,
    new.COMMAND,
    experiments.COMMAND,
    doctor.COMMAND,
    completion.COMMAND,
)


WIDTH = 80
TAKES_RUNS = re.compile(r"\b(RUN|A B|CASE::NAME|latest)\b")


def parser() -> argparse.ArgumentParser:
    """What runs a command is in `command`; the parser itself is in `parser`, for completion."""
    made = argparse.ArgumentParser(
        prog="softbench",
        description="Pages, tables and comparisons of benchmark runs, from their records;\nruns are made by pytest --softbench.",
        epilog=_examples(example for command in COMMANDS for example in command.examples[:2]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"softbench {__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=textwrap.fill(command.summary, WIDTH),
            epilog=_examples(command.examples),
            formatter_class=made.formatter_class,
        )
        sub.set_defaults(command=command.run, parser=made)
        command.arguments(sub)
    return made


def _examples(examples: Iterable[tuple[str, str]]) -> str:
    """What an example does stands beside it where all of that fits a terminal, else below it."""
    shown = list(examples)
    width = max(len(line) for line, _ in shown)
    if max(len(text) for _, text in shown) + width + 4 <= WIDTH:
        lines = "\n".join(f"  {line.ljust(width)}  {text}" for line, text in shown)
    else:
        lines = "\n".join(f"  {line}\n      {text}" for line, text in shown)
    takes_runs = any(TAKES_RUNS.search(line) for line, _ in shown)
    return (f"RUN is the {RUN}.\n\n" if takes_runs else "") + f"examples:\n{lines}\n"
