"""`pytest --softbench` in a process of its own, for commands that measure."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from softbench.model import Run
from softbench.records import store
from softbench.texts import InputError

_ARGUMENTS = ("-p", "softbench.plugin", "-p", "no:cacheprovider", "-o", "addopts=", "--softbench", "--color=no")
AHEAD = [sys.executable, "-m", "softbench.session.ahead"]
"""The command of a process that waits to be told the arguments of its run."""
_OUTER = ("PYTEST_ADDOPTS", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
"""Variables that are for another pytest, or would have GitHub show every run."""
ONLY = '''"""Only these implementations run."""

NAMES = {names!r}


def pytest_collection_modifyitems(config, items):
    kept = [item for item in items if item.nodeid.rpartition("::")[2].partition("[")[0] in NAMES]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
'''
"""A conftest.py, to be formatted with their names."""
_CELL = re.compile(r"^.*::([^:\s]+)::([^:\s]+)$", re.M)
_PREFIX = re.compile(r"^(ERROR: )?(softbench: )?")
_REFUSED = (4, 5)


class RunRefused(InputError):
    """Nothing was measured: an option, a file or the selection cannot be used."""


class RunFailed(InputError):
    """The run ended early, so further runs would too."""


def cells(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """(case id, variant id) of all cells that a command selects. Raises RunRefused or RunFailed."""
    return _CELL.findall(_pytest([*arguments, "--collect-only", "-q"]))


def measure(arguments: Sequence[str], project: Path | None = None) -> Run:
    """The run that a command makes in a project, by default here; its page is not written.

    Raises RunRefused, RunFailed, or what `store.read` raises.
    """
    with tempfile.TemporaryDirectory(prefix="softbench-") as folder:
        events = Path(folder) / "events"
        output = _pytest([*arguments, f"--softbench-events={events}", "--softbench-no-page"], project)
        lines = events.read_text(encoding="utf-8").splitlines() if events.is_file() else []
    begun = next((event for event in map(json.loads, lines) if event["event"] == "begin"), None)
    if begun is None:
        raise RunFailed(f"pytest began no run: {last_line(output)}")
    return store.read(Path(begun["records"]))


def arguments_of(words: Sequence[str]) -> list[str]:
    """Those of pytest for `--softbench` with some options, without the options of a configuration."""
    return [*_ARGUMENTS, *words]


def environment() -> dict[str, str]:
    """Its variables: this process's, without those that are meant for another pytest."""
    return {name: value for name, value in os.environ.items() if name not in _OUTER}


def elsewhere() -> dict[str, str]:
    """The same for a command in another folder: a checkout of softbench need not be installed."""
    found = environment()
    paths = [str(Path(__file__).resolve().parents[2]), *filter(None, [found.get("PYTHONPATH")])]
    return {**found, "PYTHONPATH": os.pathsep.join(paths)}


def _pytest(arguments: Sequence[str], project: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments_of(arguments)],
        cwd=project,
        env=elsewhere() if project else environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode in (0, 1):
        return done.stdout
    why = last_line(done.stderr) or last_line(done.stdout)
    raise (RunRefused if done.returncode in _REFUSED else RunFailed)(why or f"pytest ended with {done.returncode}")


def last_line(output: str) -> str:
    """The last line of an output that says something, without what pytest puts before it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return _PREFIX.sub("", lines[-1])[:500] if lines else ""
