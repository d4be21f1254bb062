"""What a command is, and what several of them do: find runs, choose cases, write a file, print a document."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from softbench.analysis.document import Document
from softbench.model import Run
from softbench.records import store
from softbench.render import export, tables
from softbench.texts import InputError

CommandResult = tuple[str, int]
"""What goes to stdout, and the exit code."""
RUN = "id of a run, path of its file, or latest"


@dataclass(frozen=True)
class Command:
    """A word behind `softbench`; its examples are command lines, each with what it does."""

    name: str
    summary: str
    examples: tuple[tuple[str, str], ...]
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], CommandResult]


def width() -> int:
    """Of text: the terminal's, where it goes to one and that is narrower than is easily read."""
    return min(tables.WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else tables.WIDTH


FORMATS: dict[str, Callable[[Document], str]] = {
    "text": lambda document: tables.document_text(document, width()),
    "markdown": export.document_markdown,
}
"""How a document is printed, by --format."""


def format_argument(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--format", choices=tuple(FORMATS), default="text", help="default: %(default)s")


def read(options: argparse.Namespace, name: str) -> Run:
    """A run by its id, its file, or as "latest"."""
    return store.read(store.find(Path(options.reports), name))


def reports_argument(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--reports", metavar="DIR", default="reports", help="folder of the runs (default: %(default)s)")


def cases_argument(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--cases", metavar="PATTERNS", help="only cases whose id matches one of these: '*float16*,*x4096'")


def only(runs: Sequence[Run], patterns: str) -> Sequence[Run]:
    """The runs with only those cases that one of the comma-separated patterns matches. Raises InputError for none.

    Of how many such cases they were asked for nothing is known.
    """
    if not patterns:
        return runs
    ids = {record.case.id for run in runs for record in run.records}
    wanted = {name for name in ids if any(fnmatchcase(name, pattern) for pattern in patterns.split(","))}
    if ids and not wanted:
        raise InputError(f"no case matches {patterns!r}; one of them is {min(ids)!r}")
    return [Run(replace(run.passport, cases=0), tuple(r for r in run.records if r.case.id in wanted)) for run in runs]


def write(path: Path, content: str | bytes) -> None:
    """Raises InputError where that cannot be."""
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({getattr(error, 'strerror', error)})") from None
