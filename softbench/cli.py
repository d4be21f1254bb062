"""The command `softbench`: pages and tables of runs on disk, made from their records alone."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from softbench import __version__, experiments, export, leaderboard, published, report, store, tables
from softbench.leaderboard import Board
from softbench.model import Run

_EXAMPLES = """\
RUN is the id of a run, the path of its .jsonl file, or "latest".

examples:
  softbench report latest                      the page again, beside the records, and the tables here
  softbench report reports/h200/RUN.jsonl --output page.html
  softbench table latest                       the ranking and the figures, as pytest --softbench ends
  softbench table RUN --format markdown        for a README
  softbench table RUN --cases 'rmsnorm-*'      some of its cases, ranked among themselves
  softbench table RUN --format csv > run.csv   every cell with all its figures
  softbench experiments RUN [RUN ...]          published experiments beside what these runs say, as docs/experiments.md
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it is done, 2 with one line on stderr when something given cannot be used."""
    options = _parser().parse_args(arguments)
    try:
        sys.stdout.write(options.command(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough; without this the interpreter complains when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (store.StoreError, published.PublishedError) as error:
        print(f"softbench: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"softbench: {error.filename}: cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    return 0


def text_tables(board: Board) -> str:
    """What a benchmark session ends with: figures, ranking, and what did not pass."""
    parts = (tables.summary_table(board), tables.ranking_table(board), tables.statuses(board))
    return "".join(f"\n{part.rstrip()}\n" for part in parts if part.strip())


def _report(options: argparse.Namespace) -> str:
    run, path = _run(options)
    page = Path(options.output) if options.output else path.with_suffix(".html")
    page.write_text(report.render(run), encoding="utf-8")
    return f"{text_tables(leaderboard.build(run))}\npage:    {page}\n"


def _run(options: argparse.Namespace) -> tuple[Run, Path]:
    """The run that is named, or those of its cases that are asked for, and its file."""
    path = store.find(Path(options.reports), options.run)
    run = store.read(path)
    return (_only(run, options.cases) if options.cases and run.records else run), path


def _only(run: Run, patterns: str) -> Run:
    """The run with only those cases that one of the comma-separated patterns matches. Raises StoreError for none."""
    wanted = patterns.split(",")
    records = tuple(r for r in run.records if any(fnmatchcase(r.case.id, pattern) for pattern in wanted))
    if not records:
        raise store.StoreError(f"no case of this run matches {patterns!r}; one of them is {run.records[0].case.id!r}")
    return replace(run, records=records)


def _table(options: argparse.Namespace) -> str:
    return _FORMATS[options.format](leaderboard.build(_run(options)[0]))


def _experiments(options: argparse.Namespace) -> str:
    runs = [store.read(store.find(Path(options.reports), name)) for name in options.runs]
    page = Path(options.output)
    page.write_text(experiments.markdown(runs, published.read(Path(options.published))), encoding="utf-8")
    return f"page:    {page}\n"


_FORMATS: dict[str, Callable[[Board], str]] = {
    "text": text_tables,
    "markdown": export.markdown,
    "csv": export.csv,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="softbench",
        description="Pages and tables of benchmark runs, from their records; runs are made by pytest --softbench.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"softbench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, summary in (
        ("report", _report, "render the HTML page of a run and print its tables"),
        ("table", _table, "print a run as text, Markdown or CSV"),
        ("experiments", _experiments, "write what runs say of published experiments, as a Markdown page"),
    ):
        sub = commands.add_parser(
            name, help=summary, description=summary, epilog=_EXAMPLES, formatter_class=parser.formatter_class
        )
        sub.add_argument(
            "--reports", metavar="DIR", default="reports", help="folder of the runs (default: %(default)s)"
        )
        sub.set_defaults(command=command)
        _ARGUMENTS[name](sub)
    return parser


def _run_argument(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("run", metavar="RUN", help="id of a run, path of its file, or latest")
    sub.add_argument(
        "--cases", metavar="PATTERNS", help="only cases whose id matches one of these: 'softmax-float16-*,*x4096'"
    )


def _report_arguments(sub: argparse.ArgumentParser) -> None:
    _run_argument(sub)
    sub.add_argument("--output", metavar="FILE", help="where the page goes (default: beside the records)")


def _table_arguments(sub: argparse.ArgumentParser) -> None:
    _run_argument(sub)
    sub.add_argument("--format", choices=tuple(_FORMATS), default="text", help="default: %(default)s")


def _experiments_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("runs", metavar="RUN", nargs="+", help="as above; of several with the same case the last counts")
    sub.add_argument(
        "--published",
        metavar="DIR",
        default="reports/published",
        help="folder of the published figures (default: %(default)s)",
    )
    sub.add_argument(
        "--output", metavar="FILE", default="docs/experiments.md", help="where the page goes (default: %(default)s)"
    )


_ARGUMENTS = {"report": _report_arguments, "table": _table_arguments, "experiments": _experiments_arguments}
