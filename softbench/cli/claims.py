"""`softbench claims`: statements of papers and release notes held against runs."""

from pathlib import Path

from softbench.analysis import claims
from softbench.cli.command import REPORTS, Command, CommandResult, Options, argument, formats, printed, read, write
from softbench.records import claims as claim_files
from softbench.records.comparable.sections import one_machine


def _run(options: Options) -> CommandResult:
    runs = one_machine([read(options, name) for name in options.run or ["latest"]])
    files = [claim_files.read(Path(name)) for name in options.files] or claim_files.bundled()
    judged = claims.judge(runs, files)
    text = printed(options, claims.document(judged), claims.datasets(judged))
    if not options.output:
        return text, 0
    write(Path(options.output), text)
    return f"page:    {options.output}\n", 0


COMMAND = Command(
    "claims",
    "hold statements of papers and release notes against runs",
    (
        ("softbench claims FILE", "each claim holds, is refuted, or cannot be told, by the newest run"),
        ("softbench claims --run RUN --run RUN", "the published experiments that come with softbench"),
    ),
    (
        REPORTS,
        argument("files", metavar="FILE", nargs="*", help="of claims, in YAML (default: those that come with softbench)"),
        argument("--run", metavar="RUN", action="append", help="may be repeated; if several have a case, the last one counts"),
        formats(default="markdown"),
        argument("--output", metavar="FILE", help="file of the page (default: stdout)"),
    ),
    _run,
)
