"""The controller's side of a run on several workers: which GPU each has, which cases are done, who has ended."""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from softbench.model import Case, Variant
from softbench.records import shards
from softbench.session.collect import ending, refusing
from softbench.session.journal import Journal
from softbench.session.multi_gpu import hosts, scheduling
from softbench.session.multi_gpu.replacing import Replacing
from softbench.session.multi_gpu.seats import Seat
from softbench.session.multi_gpu.worker import ERROR, KEY, REPEATS, RUN, Orders
from softbench.texts import InputError


class Controller:
    """pytest-xdist's hooks. A `node` is its handle of a worker; a worker that replaces a dead one takes its seat."""

    def __init__(self, journal: Journal, seats: Sequence[Seat], note: Callable[[str], None]) -> None:
        self._seats, self._note = seats, note
        self._journal, self._selection = journal, journal.selection
        self._cases = {case.id: case for case in self._selection.cases}
        self._variants = {(variant.operator, variant.id): variant for variant in self._selection.variants}
        self.cells: dict[str, tuple[Case, Variant]] = {}
        """Case and variant of all cells that take part, case by case, by their node ids."""
        self._pids: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Before the first worker is started."""
        with refusing():
            self._journal.start()
        dsession = session.config.pluginmanager.get_plugin("dsession")
        self._replacing = Replacing(dsession, self._note, f"--softbench-resume={self._journal.begin().run_id}")

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        return scheduling.make(config, log, self._cases)

    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """A worker that replaces another has its specification, and so its seat."""
        for spec, seat in zip(specs, self._seats, strict=True):
            hosts.prepare(spec).softbench_seat = seat

    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        """Every host has the files of this one: pytest-xdist copies none, and changes no paths."""
        gateway.spec.popen, gateway.spec.chdir = True, None

    def pytest_configure_node(self, node: Any) -> None:
        name, journal, spec = node.gateway.id, self._journal, node.gateway.spec
        node.workerinput[KEY] = Orders(spec.softbench_seat, shards.Shard(journal.begin(), name)).pack()
        if journal.settings.resume and (run := journal.record_file):
            node.workerinput[RUN] = run.read_bytes()
        if not hosts.is_elsewhere(spec):
            self._pids[name] = node.gateway._rinfo().pid

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """The first worker that has collected determines the cells."""
        if self.cells:
            return
        for nodeid in ids:
            words = nodeid.split("::", 2)
            case = self._cases.get(words[1]) if len(words) == 3 else None
            if case is not None:
                variant = self._variants[case.operator, words[2]]
                self.cells[nodeid] = case, variant
                self._selection.add(case, variant)
        if self.cells:
            with refusing():
                self._journal.open()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """With its first report a case is complete, and comes along."""
        case, _ = self.cells.get(report.nodeid, (None, None))
        if getattr(report, "softbench_status", "") and case is not None:
            with ending():
                self._journal.merge(report.node.gateway.id, case, vars(report).pop("softbench_records", ""))

    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Take what it leaves, and end the run if the worker gives a reason that holds for all others."""
        name = node.gateway.id
        self._pids.pop(name, None)
        if match := re.search(r"UsageError: (softbench: .*)", str(error or "")):
            raise pytest.UsageError(match[1])
        if error is None:
            if text := node.workeroutput.get(ERROR):
                pytest.exit(text, returncode=pytest.ExitCode.INTERRUPTED)
            with ending():
                self._journal.repeat(shards.unpack(name, node.workeroutput.get(REPEATS, "")))
            self._replacing.ended(node)

    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        case, _ = self.cells.get(crashitem, (None, None))
        if case is None:
            return
        if self._journal.knows(case):
            what = "its records are kept, and the rest of its cells is not reported"
        else:
            what = f"its records are lost; measure it with: --softbench-resume={self._journal.begin().run_id}"
        report.longrepr = f"worker {report.node.gateway.id} ended during {case.id}: {what}"

    def finish(self) -> None:
        """Interrupt workers that are still measuring, or pytest-xdist would wait for them; they end their own workers."""
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def clear_up(self) -> None:
        """After all workers have ended: one file, in the order of the cases, or none if no case was measured."""
        with contextlib.suppress(InputError, OSError):
            self._journal.put_in_order()
            if not self._journal.settings.resume and not self.cells and (run := self._journal.record_file):
                run.unlink()
