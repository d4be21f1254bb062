"""The benchmark inside a pytest session: what is collected, what is shown while running, what is left at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softbench import device, settings
from softbench.collect import CellItem, ShapesFile
from softbench.matrix import ShapesError
from softbench.model import Case, Run
from softbench.registry import RegistryError
from softbench.run import Bench
from softbench.store import StoreError

_ERRORS = (settings.SettingsError, ShapesError, RegistryError, StoreError)


def start(config: pytest.Config) -> None:
    """Read the options, refuse what cannot be, and take over collection. Raises `pytest.UsageError`."""
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("softbench: kernels are timed one at a time; leave out -n")
    try:
        chosen = settings.read(config, "gpu" if device.gpu() else "cpu")
        _refuse_other_gpu(chosen)
        bench = Bench.plan(chosen)
    except (*_ERRORS, FileNotFoundError, ValueError) as error:
        raise pytest.UsageError(f"softbench: {error}") from None
    config.args = _what_to_collect(config, chosen.shapes)
    if not _wants_benchmark_table(config):
        config.option.benchmark_quiet = True
    config.pluginmanager.register(BenchSession(config, bench), "softbench-session")


class BenchSession:
    """The hooks of a running benchmark."""

    def __init__(self, config: pytest.Config, bench: Bench) -> None:
        self._config, self._bench = config, bench
        self._progress_shown = False
        self._page: Path | None = None
        bench.progress, bench.on_case = self._progress, self._case_board

    def pytest_report_header(self) -> list[str]:
        machine = device.describe()
        chosen = self._bench.settings
        return [
            f"softbench: {machine['name']}, profile {','.join(chosen.profiles)} of {chosen.shapes}",
            f"softbench: {len(self._bench.cases)} cases x {len(self._bench.variants)} variants",
        ]

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> ShapesFile | None:
        if file_path != self._bench.settings.shapes:
            return None
        # pytest names a file outside its root by nothing at all; ids begin with the file's name then.
        name = None if file_path.is_relative_to(self._config.rootpath) else file_path.name
        file: ShapesFile = ShapesFile.from_parent(parent, path=file_path, nodeid=name)
        file.bench = self._bench
        return file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Who takes part in a contest is known once everything is deselected that will be."""
        for item in session.items:
            if isinstance(item, CellItem):
                self._bench.takes_part.setdefault(item.case, []).append(item.variant)
        if self._bench.takes_part and not self._config.option.collectonly:
            try:
                self._bench.open()
            except _ERRORS as error:
                raise pytest.UsageError(f"softbench: {error}") from None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report = yield
        if isinstance(item, CellItem) and report.when == "call" and item.outcome is not None:
            report.softbench_status = item.outcome.status.value
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """No dots between the boards; the status' own word with -v."""
        status = getattr(report, "softbench_status", None)
        if status is None or hasattr(report, "wasxfail"):
            return None
        return report.outcome, "", status

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._bench.close()
        run = self._bench.result()
        if run is not None and run.records:
            self._page = self._write_page(run)

    def pytest_unconfigure(self) -> None:
        self._bench.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        run = self._bench.result()
        if run is None or not run.records:
            return
        from softbench import leaderboard, tables

        board = leaderboard.build(run)
        for text in (tables.summary_table(board), tables.ranking_table(board), tables.statuses(board)):
            terminalreporter.write_line("")
            terminalreporter.write(text.rstrip() + "\n")
        terminalreporter.write_line("")
        terminalreporter.write_line(f"records: {self._bench.record_file}")
        if self._page is not None:
            terminalreporter.write_line(f"page:    {self._page} (also {self._page.with_name('latest.html').name})")

    def _write_page(self, run: Run) -> Path | None:
        from softbench import report

        path = self._bench.settings.reports / f"{run.passport.run_id}.html"
        try:
            page = report.render(run)
            path.write_text(page, encoding="utf-8")
            path.with_name("latest.html").write_text(page, encoding="utf-8")
        except OSError as error:
            self._line(f"softbench: {path} cannot be written ({error.strerror}); the records are kept")
            return None
        return path

    def _progress(self, text: str) -> None:
        """One line that is written over on a terminal, and not at all where there is none."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not getattr(reporter, "isatty", False):
            return
        with self._uncaptured():
            reporter.rewrite(text[: max(20, reporter._tw.fullwidth - 1)], erase=True)
        self._progress_shown = True

    def _case_board(self, case: Case) -> None:
        from softbench import leaderboard, tables

        run = self._bench.result(case)
        if run is not None:
            self._line("\n" + tables.case_table(leaderboard.build(run), case).rstrip())

    def _line(self, text: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        with self._uncaptured():
            if self._progress_shown:
                reporter.rewrite("", erase=True)
                self._progress_shown = False
            reporter.write_line(text)

    def _uncaptured(self) -> Any:
        import contextlib

        manager = self._config.pluginmanager.get_plugin("capturemanager")
        return manager.global_and_fixture_disabled() if manager else contextlib.nullcontext()


def _what_to_collect(config: pytest.Config, shapes: Path) -> list[str]:
    """The benchmark alone, in place of testpaths; paths that are named are collected beside it."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return [str(shapes)]
    named = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    includes_it = any(path == shapes or path in shapes.parents for path in named)
    return config.args if includes_it else [str(shapes), *config.args]


def _refuse_other_gpu(chosen: settings.Settings) -> None:
    if not chosen.expected_gpu or chosen.any_gpu:
        return
    if why := device.expectation(chosen.expected_gpu, device.gpu()):
        raise settings.SettingsError(f"{why}; add --softbench-any-gpu to run here all the same")


def _wants_benchmark_table(config: pytest.Config) -> bool:
    return any(getattr(config.option, name, None) for name in ("benchmark_compare", "benchmark_verbose"))
