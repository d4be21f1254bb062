"""`softbench experiments`: published experiments beside what runs say."""

from __future__ import annotations

import argparse
from pathlib import Path

from softbench import experiments, published
from softbench.cli.command import Command, Said, read, reports_argument, write
from softbench.comparable.sections import one_machine


def _run(options: argparse.Namespace) -> Said:
    runs, page = one_machine([read(options, name) for name in options.runs]), Path(options.output)
    write(page, experiments.markdown(runs, published.read(Path(options.published))))
    return f"page:    {page}\n", 0


def _arguments(sub: argparse.ArgumentParser) -> None:
    reports_argument(sub)
    sub.add_argument("runs", metavar="RUN", nargs="+", help="of several with the same case the last counts")
    sub.add_argument(
        "--published",
        metavar="DIR",
        default="reports/published",
        help="folder of the published figures (default: %(default)s)",
    )
    sub.add_argument(
        "--output", metavar="FILE", default="docs/experiments.md", help="where the page goes (default: %(default)s)"
    )


COMMAND = Command(
    "experiments",
    "write what runs say of published experiments, as a Markdown page",
    (("softbench experiments RUN [RUN ...]", "published experiments beside these runs, as docs/experiments.md"),),
    _arguments,
    _run,
)
