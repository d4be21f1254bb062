"""`softbench doctor`: how far the numbers of this machine can be trusted."""

import argparse
import sys
from pathlib import Path

from softbench.cli.command import FORMAT, REPORTS, Command, CommandResult, argument, printed, whole


def _run(options: argparse.Namespace) -> CommandResult:
    from softbench import doctor  # imports the contest, which other commands do not need

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    parts = doctor.examine(Path(options.reports), options.contests, progress)
    progress("")
    return printed(options, doctor.document(parts), doctor.datasets(parts)), int(any(part.failures for part in parts))


COMMAND = Command(
    "doctor",
    "run known cheats and one kernel against itself, and say how far this machine can be trusted",
    (("softbench doctor", "how far this machine can be trusted: known cheats, A against A"),),
    (
        REPORTS,
        argument(
            "--contests",
            metavar="N",
            type=whole("number of contests", 1, 1000),
            help="contests of one kernel against itself (default: as many as start within 15 s)",
        ),
        FORMAT,
    ),
    _run,
)
