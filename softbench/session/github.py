"""What a run leaves for GitHub at its end: annotations in the log, and the summary of the step."""

import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from softbench.analysis import leaderboard
from softbench.model import Record, Run, Variant
from softbench.render import github
from softbench.resources import read_utf8
from softbench.session.regression import RegressionResult
from softbench.session.selection import Selection
from softbench.texts import InputError, printable


class GitHubReport:
    """A plugin of pytest, registered where GitHub runs it; outcome gives the run and its comparison when it has ended."""

    def __init__(
        self,
        selection: Selection,
        outcome: Callable[[], tuple[Run | None, RegressionResult]],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._outcome, self._unread = outcome, selection.unread
        self._paths = {variant.implementation: Path(variant.path) for variant in selection.variants}
        self._workspace = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd())
        self._summary = environment.get("GITHUB_STEP_SUMMARY", "")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Any:
        """Around all that the summary prints, since a line of a kernel's text may look like a command."""
        token = secrets.token_hex(16)
        terminalreporter.write_line(f"::stop-commands::{token}")
        try:
            result = yield
        finally:
            terminalreporter.write_line(f"::{token}::")
        run, regression = self._outcome()
        for line in github.errors(self._annotations(run, regression), self._place):
            terminalreporter.write_line(line)
        if self._summary and run is not None and run.records and (why := self._append(run, regression)):
            terminalreporter.write_line(why)
        return result

    def _annotations(self, run: Run | None, regression: RegressionResult) -> Sequence[github.Annotation]:
        """Files that cannot be read, then failures, then what a limit forbids."""
        found = [github.Annotation("not Python", why, place=self._named(why)) for why in self._unread]
        found += github.failures(run.records) if run is not None else ()
        return [*found, *regression.annotations]

    def _named(self, why: str) -> github.FileLine:
        """The place that a message begins with."""
        match = re.match(r"(.+?):(\d{1,9}): ", why)
        return (self._below(Path(match[1])), int(match[2])) if match else ("", 0)

    def _place(self, record: Record) -> github.FileLine:
        """The last line of its own file in its traceback, else its factory."""
        path = self._paths.get(record.variant.implementation)
        if path is None or not (below := self._below(path)):
            return "", 0
        frames = re.findall(rf'File "{re.escape(record.variant.path)}", line (\d{{1,9}})', "\n".join(record.traceback))
        return below, int(frames[-1]) if frames else _line(path, record.variant)

    def _below(self, path: Path) -> str:
        """The path from the workspace on; "" if it is elsewhere."""
        try:
            return path.resolve().relative_to(self._workspace.resolve()).as_posix()
        except (OSError, ValueError):
            return ""

    def _append(self, run: Run, regression: RegressionResult) -> str:
        """Append the summary, as much of it as still fits. Returns why it cannot be written, or ""."""
        try:
            with open(self._summary, "ab") as file:
                most = github.MOST_SUMMARY - file.tell()
                text = github.step_summary(leaderboard.build(run), regression.gate, regression.document, most)
                file.write(text.encode(errors="replace"))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return printable(f"softbench: the summary of the step cannot be written to {self._summary} ({why})")
        return ""


def is_here() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def _line(path: Path, variant: Variant) -> int:
    try:
        lines = read_utf8(path, InputError).splitlines()
    except InputError:
        return 1
    start = f"def {variant.implementation}("
    return next((number for number, line in enumerate(lines, 1) if line.startswith(start)), 1)
