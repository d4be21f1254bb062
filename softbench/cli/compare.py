"""`softbench compare`: two runs, cell by cell, and an exit code for CI."""

from pathlib import Path

from softbench.analysis import compare
from softbench.analysis.compare import forest, summary
from softbench.cli import command
from softbench.cli.command import CASES, REPORTS, RUN, Command, CommandResult, Options, argument, only, printed, read, write
from softbench.render import github, report


def _run(options: Options) -> CommandResult:
    limit = command.limit("--fail-on", options.fail_on, "2%")
    before, after = only([read(options, name) for name in (options.before, options.after)], options.cases or "")
    comparison = compare.compare(before, after)
    if options.output:
        title = f"{comparison.after.run_id} against {comparison.before.run_id}"
        every = summary.document(comparison, whole=True, fold=True)
        write(Path(options.output), report.render_document(title, every, forest=forest.forest(comparison.cells)))
    if options.format == "comment":
        text = github.comment(comparison, limit)
    else:
        document, data = summary.document(comparison, whole=options.all), summary.datasets(comparison, limit)
        text = printed(options, document, data, options.output or "")
    if limit is not None and options.format in command.FORMATS:
        text += f"\n--fail-on {options.fail_on} {summary.gate(comparison, limit)}\n"
    return text, int(limit is not None and bool(comparison.failures(limit)))


COMMAND = Command(
    "compare",
    "compare two runs cell by cell: faster, slower, same, or cannot tell",
    (
        ("softbench compare RUN latest", "what the newest run changed"),
        ("softbench compare A B --fail-on 2%", "for CI: exit code 1 where a cell fell, or lost 2 % or more"),
        ("softbench compare A B --output page.html", "every cell, as a page"),
        ("softbench compare A B --format comment", "for a pull request"),
        ("softbench compare A B --format csv --cases 'softmax-*'", "some cases, with all digits"),
    ),
    (
        argument("before", metavar="A", help=f"the older run: {RUN}"),
        argument("after", metavar="B", help="the newer run"),
        CASES,
        REPORTS,
        argument("--all", action="store_true", help="also list cells whose verdict is same or cannot tell"),
        command.formats("comment"),
        argument("--output", metavar="FILE", help="also write a page of every cell"),
        argument(
            "--fail-on", metavar="PERCENT", help="exit with 1 if a cell of B fell from a pass, or is slower by at least this: 2%%"
        ),
    ),
    _run,
)
