"""The parser of the command line: every command with its arguments and examples."""

import argparse
import re
import textwrap
from collections.abc import Iterable

from softbench import __version__
from softbench.cli import (
    bisect,
    boards,
    capture,
    claims,
    compare,
    completion,
    doctor,
    drawings,
    history,
    listing,
    new,
    serve,
    show,
    site,
)
from softbench.cli.command import RUN, Command
from softbench.cli.submissions import review, submit

COMMANDS: tuple[Command, ...] = (
    *(boards.REPORT, boards.TABLE, compare.COMMAND, bisect.COMMAND, history.COMMAND, site.COMMAND, show.COMMAND),
    *(drawings.FIGURE, drawings.BADGE, listing.COMMAND, new.COMMAND, capture.COMMAND, claims.COMMAND, submit.COMMAND),
    *(review.COMMAND, doctor.COMMAND, serve.COMMAND, completion.COMMAND),
)

WIDTH = 80
TAKES_RUNS = re.compile(r"\b(RUN|A B|CASE::NAME|latest)\b")


def parser() -> argparse.ArgumentParser:
    """The parsed `command` is the `Command`; `parser` is this parser, for completion."""
    whole = argparse.ArgumentParser(
        prog="softbench",
        description="Pages, tables and comparisons of benchmark runs, from their records;\nruns are made by pytest --softbench.",
        epilog=_examples(example for command in COMMANDS for example in command.examples[:2]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"softbench {__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=textwrap.fill(command.summary, WIDTH),
            epilog=_examples(command.examples),
            formatter_class=whole.formatter_class,
        )
        sub.set_defaults(command=command, parser=whole)
        for name, settings in command.arguments:
            sub.add_argument(name, **settings)
    return whole


def _examples(examples: Iterable[tuple[str, str]]) -> str:
    """The examples with what they do: on the same line if all of them fit a terminal, else below."""
    shown = list(examples)
    width = max(len(line) for line, _ in shown)
    fits = max(len(text) for _, text in shown) + width + 4 <= WIDTH
    lines = "\n".join(f"  {line.ljust(width)}  {text}" if fits else f"  {line}\n      {text}" for line, text in shown)
    takes_runs = any(TAKES_RUNS.search(line) for line, _ in shown)
    return (f"RUN is the {RUN}.\n\n" if takes_runs else "") + f"examples:\n{lines}\n"
