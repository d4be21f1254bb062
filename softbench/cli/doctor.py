"""`softbench doctor`: what the numbers of this machine can be trusted to."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from softbench.cli.command import Command, CommandResult, reports_argument


def _run(options: argparse.Namespace) -> CommandResult:
    from softbench import doctor  # brings the contest, which pages and tables do without

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    parts = doctor.examine(Path(options.reports), options.contests, progress)
    progress("")
    return doctor.text(parts), int(doctor.failed(parts))


def _arguments(sub: argparse.ArgumentParser) -> None:
    reports_argument(sub)
    sub.add_argument(
        "--contests",
        metavar="N",
        type=_count,
        help="contests of one kernel against itself (default: as many as begin within seconds)",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= 1000 and len(text) < 9):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of contests; give 1 to 1000")
    return int(text)


COMMAND = Command(
    "doctor",
    "run known cheats and one kernel against itself, and say what this machine can be trusted to",
    (("softbench doctor", "what this machine can be trusted to: known cheats, A against A"),),
    _arguments,
    _run,
)
