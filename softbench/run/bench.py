"""Runs the contests of a command, case by case, while it holds the device."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from softbench.cases import operators
from softbench.measure import busy, device, roof
from softbench.measure.contest.contest import Contest, Rules
from softbench.measure.contest.progress import Progress
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.device_lock import DeviceLock
from softbench.measure.other_processes import OtherProcesses
from softbench.model import Calibration, Case, Record, Variant, notes
from softbench.model.limits import Limits
from softbench.records import retries, store
from softbench.run.journal import Journal
from softbench.run.listener import Listener

LEAST_BUDGET_S = 0.1
"""Of a case whose run is out of budget: the two placements that every case has."""


@dataclass
class Warm:
    """What the runs of one command share: their processes, and what is known of the clocks."""

    pool: WorkerPool | None = None
    calibrations: tuple[Calibration, ...] | None = None

    def close(self) -> None:
        """End all processes."""
        if self.pool is not None:
            self.pool.close()


class Bench:
    """Measures the cells of a selection, and writes their records to the journal."""

    def __init__(self, journal: Journal, listener: Listener | None = None, warm: Warm | None = None) -> None:
        """warm holds the processes of an earlier run, and those of this one after it; without it they end with the run."""
        self.journal, self.settings, self.selection = journal, journal.settings, journal.selection
        self._listener, self._warm = listener or Listener(), warm
        self._contest: Contest | None = None
        self._other_processes = OtherProcesses(device.Monitor(None))
        self._has_waited = False
        self._failed: dict[Case, str] = {}
        self._began = time.monotonic()

    def record(self, case: Case, variant: Variant) -> Record:
        """The record of a cell; the first request for a cell of a case measures the whole case."""
        record = self.journal.find(case, variant)
        if record is None:
            self._run(case)
            record = self.journal.find(case, variant)
        if record is None:
            raise KeyError(f"{case.id}::{variant.id} took no part in its contest")
        return record

    def close(self) -> None:
        """End all processes of the run, unless they are kept warm, and let others append to its file."""
        if self._contest is not None:
            if self._warm is None:
                self._contest.pool.close()
            else:
                self._warm.pool, self._warm.calibrations = self._contest.pool, self._contest.calibrations
            self._contest = None
        self.journal.release()

    def _run(self, case: Case) -> None:
        if case in self._failed:
            raise RuntimeError(self._failed[case])
        self.journal.writer()
        if self._contest is None:
            self._contest = self._make_contest(self.journal.begin().seed)
            self._began = time.monotonic()
        if self.settings.run_budget_s:
            self._contest.rules = replace(self._contest.rules, budget_s=self._budget_s())
        try:
            self.journal.save(list(map(store.storable, self._measured(self._contest, case))))
        except Exception as error:
            self._failed[case] = f"the contest of {case.id} failed already: {error}"
            raise
        self._listener.on_case(case)

    def _budget_s(self) -> float:
        """Measuring time of the next case: its own, and at most an equal share of what the run has left.

        What a case does not use is the others'. Workers of xdist share the waiting cases among them.
        """
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        waiting = sum(case.timed for case in self.journal.waiting_cases)
        left = self.settings.run_budget_s - (time.monotonic() - self._began)
        return min(self.settings.budget_s, max(LEAST_BUDGET_S, left * workers / max(1, waiting)))

    def _measured(self, contest: Contest, case: Case) -> list[Record]:
        """A case, measured while this run holds the device; the records say which run it waited for, and what else ran.

        Cases that are only checked may run at the same time on a CPU; on a GPU one of them may fill the memory.
        """
        card = contest.card
        lock = DeviceLock(card.id if card else "cpu", self.journal.begin().run_id)

        def waiting(holder: str, seconds: float) -> None:
            if contest.pool.owns(lock.held_by()):
                contest.pool.close()  # a file has locked the device in its worker, and the run would wait for itself
            self._waiting(holder, seconds)

        with lock.hold(shared=card is None and not case.timed, waiting=waiting) as waited:
            others, meter = self._other_processes.names(), None if card or not case.timed else busy.Meter()
            records = contest.run(case, self.selection.takes_part[case])
            others |= self._other_processes.names()
            also: tuple[str, ...] = (notes.ALSO_ON_GPU + ", ".join(others.values()),) if others else ()
            also += (notes.CPU_BUSY + used,) if meter is not None and (used := meter.text()) else ()
        return _with_notes(records, also, waited, card.id if card else "")

    def _waiting(self, holder: str, seconds: float) -> None:
        if not self._has_waited:
            self._has_waited = True
            kind = "GPU" if device.gpu() else "CPU"
            self._listener.note(f"waits for its turn on this {kind}, case by case: {holder}")
        self._listener.progress(Progress(f"waiting for {holder}", step=f"{seconds:.0f} s"))

    def _make_contest(self, seed: int) -> Contest:
        card = device.gpu()
        monitor = device.Monitor(card)
        self._other_processes = OtherProcesses(monitor)
        kind = "cuda" if card is not None else "cpu"
        names = {case.operator for case in self.selection.cases}
        chosen = self.settings
        further = (chosen.traffic, chosen.device_clock, chosen.registers)
        return Contest(
            Rules(chosen.budget_s, chosen.timeout_s, seed, chosen.selection, *further),
            (self._warm and self._warm.pool) or WorkerPool(kind, threads=chosen.threads),
            card,
            roofs={name: roof.variants(operators.get(name).roof, kind) for name in names},
            baselines=self.selection.baselines(names),
            read_telemetry=monitor.read,
            progress=self._listener.progress,
            limits=Limits.of(self.journal.begin().device),
            calibrations=self._warm.calibrations if self._warm else None,
        )


def _with_notes(records: Sequence[Record], also: tuple[str, ...], waited: str, gpu: str) -> list[Record]:
    """The records of a case with what is known of its surroundings; `also` does not concern cells that were refused."""
    noted = [r if r.status.is_refusal else replace(r, notes=(*r.notes, *also)) for r in records]
    noted = [
        replace(r, reason=f"{r.reason}; {retries.CROWDED_OUT}") if retries.was_crowded_out(r) else r for r in noted
    ]
    if waited and noted:
        noted[-1] = replace(noted[-1], notes=(*noted[-1].notes, waited))
    return [replace(r, gpu=gpu) for r in noted] if gpu else noted
