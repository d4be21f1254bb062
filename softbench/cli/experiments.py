"""`softbench experiments`: published experiments compared with runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from softbench.analysis import experiments
from softbench.cli.command import ALL_FORMATS, REPORTS, Command, CommandResult, argument, printed, read, write
from softbench.records import published
from softbench.records.comparable.sections import one_machine


def _run(options: argparse.Namespace) -> CommandResult:
    runs = one_machine([read(options, name) for name in options.runs])
    figures = published.read(Path(options.published)) if options.published else published.bundled()
    text = printed(options, experiments.document(runs, figures), experiments.datasets(runs, figures))
    if not options.output:
        return text, 0
    write(Path(options.output), text)
    return f"page:    {options.output}\n", 0


COMMAND = Command(
    "experiments",
    "compare published experiments with runs, as a Markdown page",
    (("softbench experiments RUN [RUN ...]", "published experiments compared with these runs"),),
    (
        REPORTS,
        argument("runs", metavar="RUN", nargs="+", help="if several have the same case, the last one counts"),
        argument(
            "--published",
            metavar="DIR",
            help="folder of the published figures (default: those that come with softbench)",
        ),
        argument(
            "--format", choices=ALL_FORMATS, default="markdown", help="default: %(default)s; csv and json for programs"
        ),
        argument("--output", metavar="FILE", help="file of the page (default: stdout)"),
    ),
    _run,
)
