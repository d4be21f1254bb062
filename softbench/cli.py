"""The command `softbench`: pages and tables of runs on disk, made from their records alone; and what to trust here."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from softbench import __version__, experiments, export, leaderboard, published, report, store, tables
from softbench.comparable.sections import arrange, one_machine
from softbench.leaderboard.across import Machine
from softbench.model import Run
from softbench.texts import InputError

Said = tuple[str, int]
"""What goes to stdout, and the exit code."""

_EXAMPLES = """\
RUN is the id of a run, the path of its .jsonl or .jsonl.gz file, or "latest".

examples:
  softbench report latest                      the page again, beside the records, and the tables here
  softbench report reports/h200/RUN.jsonl --output page.html
  softbench table latest                       the ranking and the figures, as pytest --softbench ends
  softbench table RUN --format markdown        for a README
  softbench table RUN --cases 'rmsnorm-*'      some of its cases, ranked among themselves
  softbench table RUN --format csv > run.csv   every cell with all its figures
  softbench table RUN RUN                      runs of one machine as one, the newest of each case; others side by side
  softbench report RUN RUN --output page.html  the same as a page
  softbench experiments RUN [RUN ...]          published experiments beside what these runs say, as docs/experiments.md
  softbench doctor                             what the numbers of this machine can be trusted to: known cheats, A against A
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it is done, 2 with one line on stderr when something given cannot be used.

    1 where the doctor finds something wrong.
    """
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no "†" is no reason to say nothing
    try:
        said: Said = options.command(options)
        sys.stdout.write(said[0])
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()  # the reader (head, less) has seen enough
    except KeyboardInterrupt:
        return 130
    except InputError as error:
        print(f"softbench: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if not error.filename:
            _forget_output()  # what is left of it would be written once more at the end, and fail again
        print(f"softbench: {error.filename or 'the output'} cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    return said[1]


def _forget_output() -> None:
    """Without this the interpreter would complain at its end that the rest cannot be written either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(options: argparse.Namespace) -> Said:
    machines = _machines(options)
    path = store.find(Path(options.reports), options.runs[0])
    if len(options.runs) > 1 and not options.output:
        raise InputError("a page of several runs goes nowhere by itself; name its file with --output")
    page = Path(options.output or path.with_name(f"{store.run_name(path)}.html"))
    _write(page, report.render_machines(machines, published.bundled()))
    return f"{tables.machine_tables(machines)}\npage:    {page}\n", 0


def _machines(options: argparse.Namespace) -> list[Machine]:
    """A board a machine of the runs that are named, or of those of their cases that are asked for."""
    runs = _only(_runs(options), options.cases) if options.cases else _runs(options)
    return [Machine(s.title, leaderboard.build(s.run), s.passports, s.notes) for s in arrange(runs)]


def _runs(options: argparse.Namespace) -> list[Run]:
    return [store.read(store.find(Path(options.reports), name)) for name in options.runs]


def _only(runs: Sequence[Run], patterns: str) -> Sequence[Run]:
    """The runs with only those cases that one of the comma-separated patterns matches. Raises InputError for none."""
    ids = {record.case.id for run in runs for record in run.records}
    wanted = {name for name in ids if any(fnmatchcase(name, pattern) for pattern in patterns.split(","))}
    if ids and not wanted:
        raise InputError(f"no case matches {patterns!r}; one of them is {min(ids)!r}")
    chosen = [replace(run, records=tuple(r for r in run.records if r.case.id in wanted)) for run in runs]
    return [run for run in chosen if run.records] or chosen


def _table(options: argparse.Namespace) -> Said:
    machines = _machines(options)
    if options.format == "csv":
        for note in dict.fromkeys(note for machine in machines for note in machine.notes):
            print(f"softbench: {note}", file=sys.stderr)
    return _FORMATS[options.format](machines), 0


def _experiments(options: argparse.Namespace) -> Said:
    runs, page = one_machine(_runs(options)), Path(options.output)
    _write(page, experiments.markdown(runs, published.read(Path(options.published))))
    return f"page:    {page}\n", 0


def _doctor(options: argparse.Namespace) -> Said:
    from softbench import doctor  # brings the contest, which pages and tables do without

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    parts = doctor.examine(Path(options.reports), options.contests, progress)
    progress("")
    return doctor.text(parts), int(doctor.failed(parts))


def _write(page: Path, text: str) -> None:
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page}: cannot be written ({error.strerror})") from None


_FORMATS: dict[str, Callable[[Sequence[Machine]], str]] = {
    "text": tables.machine_tables,
    "markdown": export.machines_markdown,
    "csv": export.machines_csv,
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
        (
            "doctor",
            _doctor,
            "run known cheats and one kernel against itself, and say what this machine can be trusted to",
        ),
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
    sub.add_argument("runs", metavar="RUN", nargs="+", help="id of a run, path of its file, or latest")
    sub.add_argument(
        "--cases", metavar="PATTERNS", help="only cases whose id matches one of these: 'softmax-float16-*,*x4096'"
    )


def _report_arguments(sub: argparse.ArgumentParser) -> None:
    _run_argument(sub)
    sub.add_argument("--output", metavar="FILE", help="where the page goes (default: beside the records of one run)")


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


def _doctor_arguments(sub: argparse.ArgumentParser) -> None:
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


_ARGUMENTS = {
    "report": _report_arguments,
    "table": _table_arguments,
    "experiments": _experiments_arguments,
    "doctor": _doctor_arguments,
}
