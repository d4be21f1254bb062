"""`softbench site`: pages of all runs, as files without a server."""

from pathlib import Path

from softbench.analysis.leaderboard.formatting import plural
from softbench.analysis.ledger.machines import machines
from softbench.cli.command import Command, CommandResult, Options, argument
from softbench.cli.site import claimed, reading, writing
from softbench.records import claims as claim_files
from softbench.render import site


def _run(options: Options) -> CommandResult:
    folder = Path(options.output)
    shelf = writing.Shelf(folder)
    kept, left_out = reading.read([Path(name) for name in options.runs], shelf)
    found = machines([run for run, _ in kept])
    files = [claim_files.read(Path(name)) for name in options.claims or ()] or claim_files.bundled()
    claims = claimed.verdicts(found, files, {run.passport.run_id: path for run, path in kept}, shelf)
    count = shelf.publish(site.pages(found, claims, left_out), {run.file: path for run, path in kept})
    left = f", {len(left_out)} left out" if left_out else ""
    return f"site:    {folder / 'index.html'}: {plural(len(kept), 'run')}{left}; {count} of its files changed\n", 0


COMMAND = Command(
    "site",
    "write pages of all runs: who leads where since when, steps, claims; no server",
    (
        ("softbench site reports --output site", "runs of a folder and its folders; open site/index.html"),
        ("softbench site reports sent --output site", "with runs that others sent, which are claims until reproduced"),
    ),
    (
        argument("runs", metavar="RUNS", nargs="+", help="files and folders of records, and of submissions"),
        argument("--output", metavar="DIR", required=True, help="folder of the site: new, empty, or an earlier one"),
        argument("--claims", metavar="FILE", action="append", help="claims to hold against the runs (default: the bundled ones)"),
    ),
    _run,
)
