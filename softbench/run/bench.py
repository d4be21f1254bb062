"""One command's run: which cases and variants take part, their records, what is kept of an earlier run."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from softbench.cases import operators
from softbench.measure import busy, device, roof
from softbench.measure.contest.contest import Contest, Rules
from softbench.measure.contest.progress import Progress
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.device_lock import DeviceLock
from softbench.measure.other_processes import OtherProcesses
from softbench.model import Case, Passport, Record, Run, Variant, notes
from softbench.model.limits import Limits
from softbench.records import retries, shards, store
from softbench.run import passport, resuming
from softbench.run.selection import Ladders, Selection, select
from softbench.run.settings import Settings


@dataclass
class Bench:
    """Everything between the options and the records. Collection reads `selection`; items call `record`.

    Where several workers share a run, each has a part of it to write, and the controller, whose bench measures nothing,
    merges them; gpus are the ids of those of all workers. accept raises InputError where a run of
    that passport is of no use, or, once they are known, of those cells.
    """

    settings: Settings
    selection: Selection = field(default_factory=Selection)
    takes_part: dict[Case, list[Variant]] = field(default_factory=dict)
    progress: Callable[[Progress], None] = lambda progress: None
    note: Callable[[str], None] = lambda text: None
    on_case: Callable[[Case], None] = lambda case: None
    accept: Callable[[Passport, Mapping[Case, Sequence[Variant]]], None] = lambda passport, cells: None
    gpus: tuple[str, ...] = ()
    part: shards.Part | None = None
    _records: dict[tuple[Case, str], Record] = field(default_factory=dict)
    _known: set[Case] = field(default_factory=set)
    _contest: Contest | None = None
    _other_processes: OtherProcesses = field(default_factory=lambda: OtherProcesses(device.Monitor(None)))
    _has_waited: bool = False
    _writer: store.Writer | None = None
    _passport: Passport | None = None
    _failed: dict[Case, str] = field(default_factory=dict)
    _held: store.Writer | None = None

    @classmethod
    def plan(cls, settings: Settings, ladders: Ladders | None = None) -> Bench:
        """Read shapes and implementations; no process is started and nothing heavy is imported."""
        return cls(settings, select(settings, ladders or Ladders()))

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.selection.cases

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All that were found; those that take part in a case are the selection's candidates."""
        return self.selection.variants

    def begin(self) -> Passport:
        """The run's passport: a new one, or that of the run that is gone on with, whose file is put in order for it."""
        if self._passport is None:
            if self.part is not None:
                self._passport = self.part.passport
            elif self.settings.resume:
                self._writer, self._passport = resuming.reopen(self.settings, self.variants, self.note)
                self._held = self._writer
            else:
                seed = self.settings.seed if self.settings.seed is not None else secrets.randbits(32)
                self._passport = passport.issue(self.settings, self.variants, seed, self.gpus, len(self.takes_part))
            self.accept(self._passport, {})
        return self._passport

    def open(self) -> None:
        """Make the run's file, or find the one to go on with, before anything is measured."""
        self.accept(self.begin(), self.takes_part)
        self.start()
        if self.settings.resume:
            self._take_over()
        self._count()

    def start(self) -> None:
        """As far as that can be done before it is known who takes part."""
        self.begin()
        if self.part is None:
            self._write_to()

    def _take_over(self) -> None:
        """Keep the finished cases of the run that is gone on with."""
        old = store.read(self.part.run if self.part else self._write_to().path)
        for case, variants in self.takes_part.items():
            theirs = [r for r in old.records if r.case == case]
            if self._is_finished(old, case) and not retries.is_due(theirs, old.passport.ranking_clock):
                self._keep(theirs)
            else:  # run again whole: old samples cannot be paired with new ones
                had = {r.variant.id for r in theirs if r.role == "entrant"}
                also = [v for v in self.variants if v.operator == case.operator and v.id in had]
                variants += [v for v in also if v not in variants]
        self._keep([r for r in old.records if r.case not in self.takes_part])

    def _count(self) -> None:
        """Have the header say how many cases there will be, where that was not known as it was written."""
        issued = replace(self.begin(), cases=len(self._known | self.takes_part.keys()))
        if self.part is None and issued != self._passport:
            self._passport = issued
            self._write_to().relabel(issued)

    def _is_finished(self, run: Run, case: Case) -> bool:
        """Whether nothing is missing of a case: eager runs beside whatever is selected."""
        always = self._baselines({case.operator}).values() if case.timed else ()
        return store.finished(run, case, [*self.takes_part[case], *always])

    def record(self, case: Case, variant: Variant) -> Record:
        """The record of a cell; the first cell of a case that is asked for runs the whole case."""
        if (case, variant.id) not in self._records:
            self._run(case)
        return self._records[case, variant.id]

    def result(self, case: Case | None = None) -> Run | None:
        """All records so far, or those of one case; None if nothing was measured."""
        if self._passport is None:
            return None
        if case is not None:
            return Run(self._passport, tuple(r for r in self._records.values() if r.case == case))
        order = {case: i for i, case in enumerate(self.takes_part)}
        return Run(self._passport, tuple(sorted(self._records.values(), key=lambda r: order.get(r.case, len(order)))))

    @property
    def record_file(self) -> Path | None:
        """None as long as there is none."""
        return self._writer.path if self._writer else None

    @property
    def run_file(self) -> Path:
        """Where the records of the run go, whether it is there already or not."""
        return self.record_file or self.settings.reports / f"{self.begin().run_id}.jsonl"

    def close(self) -> None:
        """End all processes of the run, and let others add to its file."""
        if self._contest is not None:
            self._contest.pool.close()
            self._contest = None
        self.release()

    def release(self) -> None:
        """Let others add to the run's file, which holds what this run wrote."""
        writer, self._held = self._held, None
        if writer is not None:
            try:
                self._hold(writer)
            except store.StoreError as error:
                self.note(str(error))
            writer.unlock()

    def _run(self, case: Case) -> None:
        if case in self._failed:
            raise RuntimeError(self._failed[case])
        contest, writer = self._start()
        try:
            records = list(map(store.storable, self._measured(contest, case)))
            self._save(writer, records)
        except Exception as error:
            self._failed[case] = f"the contest of {case.id} failed already: {error}"
            raise
        self._keep(records)
        self.on_case(case)

    def merge(self, worker: str, case: Case) -> None:
        """Take over a case that a worker reports, with which it is whole on the disk. Raises StoreError."""
        if not self.knows(case):
            self._take(case, shards.Part(self.run_file, self.begin(), worker).of_case(case))

    def merge_rest(self, worker: str) -> None:
        """Take over what a worker that is gone has finished and not reported. Raises StoreError."""
        whole = shards.Part(self.run_file, self.begin(), worker).whole()
        for case in dict.fromkeys(record.case for record in whole.records):
            if not self.knows(case) and self._is_finished(whole, case):
                self._take(case, [record for record in whole.records if record.case == case])

    def _take(self, case: Case, records: Sequence[Record]) -> None:
        self._save(self._write_to(), records)
        self._keep(records)
        self.on_case(case)

    def knows(self, case: Case) -> bool:
        """Whether the case has records."""
        return case in self._known

    def _measured(self, contest: Contest, case: Case) -> list[Record]:
        """A case in this run's turn on the device; the records say for whom it waited, and who else was there.

        Cases that are only checked may run side by side on a CPU; on a GPU one alone may fill the card.
        """
        card = contest.card
        lock = DeviceLock(card.id if card else "cpu", self.begin().run_id)

        def waiting(holder: str, seconds: float) -> None:
            if contest.pool.owns(lock.held_by()):
                contest.pool.close()  # a file has locked the device in its worker, and the run would wait for itself
            self._waiting(holder, seconds)

        with lock.hold(shared=card is None and not case.timed, waiting=waiting) as waited:
            others, meter = self._other_processes.names(), None if card or not case.timed else busy.Meter()
            records = contest.run(case, self.takes_part[case])
            others |= self._other_processes.names()
            also: tuple[str, ...] = (notes.ALSO_ON_GPU + ", ".join(others.values()),) if others else ()
            also += (notes.CPU_BUSY + used,) if meter is not None and (used := meter.text()) else ()
        found = [r if r.status.is_refusal else replace(r, notes=(*r.notes, *also)) for r in records]
        found = [
            replace(r, reason=f"{r.reason}; {retries.CROWDED_OUT}") if retries.was_crowded_out(r) else r for r in found
        ]
        if waited and found:
            found[-1] = replace(found[-1], notes=(*found[-1].notes, waited))
        return [replace(r, gpu=card.id) for r in found] if card else found

    def _waiting(self, holder: str, seconds: float) -> None:
        if not self._has_waited:
            self._has_waited = True
            self.note(f"waits for its turn on this {'GPU' if device.gpu() else 'CPU'}, case by case: {holder}")
        self.progress(Progress(f"waiting for {holder}", step=f"{seconds:.0f} s"))

    def _save(self, writer: store.Writer, records: Sequence[Record]) -> None:
        self._held = None  # a file that cannot be written is told of once
        self._hold(writer)
        writer.append(records)
        self._held = writer

    def _hold(self, writer: store.Writer) -> None:
        """See to it that the run's file holds what this run wrote: an implementation may write to it as well."""
        if what := writer.hold():
            self.note(f"{writer.path} {what} during the run; all that was in it is written again")

    @property
    def waiting_cases(self) -> list[Case]:
        """Those that take part and have no records yet; the first of them is the next one, or being measured."""
        return [case for case in self.takes_part if not self.knows(case)]

    def _keep(self, records: Sequence[Record]) -> None:
        for record in records:
            self._known.add(record.case)
            self._records[record.case, f"roof/{record.variant.id}" if record.role == "roof" else record.variant.id] = (
                record
            )

    def _start(self) -> tuple[Contest, store.Writer]:
        writer = self._write_to()
        if self._contest is None:
            self._contest = self._make_contest(self.begin().seed)
        return self._contest, writer

    def _write_to(self) -> store.Writer:
        if self._writer is None:
            self._held = self._writer = self.part.create() if self.part else self._create(self.begin())
        return self._writer

    def _create(self, issued: Passport) -> store.Writer:
        """The run's file; where another run began in the same second, under a name with a number."""
        for number in itertools.count(2):
            try:
                writer = store.Writer.create(self.settings.reports, self.begin())
                writer.lock()
                return writer
            except store.RunExists:
                self._passport = replace(issued, run_id=f"{issued.run_id}-{number}")
        raise AssertionError("itertools.count ends nowhere")

    def _make_contest(self, seed: int) -> Contest:
        card = device.gpu()
        monitor = device.Monitor(card)
        self._other_processes = OtherProcesses(monitor)
        kind = "cuda" if card is not None else "cpu"
        names = {case.operator for case in self.cases}
        chosen = self.settings
        further = (chosen.traffic, chosen.device_clock, chosen.registers)
        rules = Rules(chosen.budget_s, chosen.timeout_s, seed, chosen.selection, *further)
        return Contest(
            rules,
            WorkerPool(kind, threads=chosen.threads),
            card,
            roofs={name: roof.variants(operators.get(name).roof, kind) for name in names},
            baselines=self._baselines(names),
            read_telemetry=monitor.read,
            progress=self.progress,
            limits=Limits.of(self.begin().device),
            calibrations=None,
        )

    def _baselines(self, names: set[str]) -> dict[str, Variant]:
        found: dict[str, Variant] = {}
        for name in names:
            wanted = operators.get(name).baseline
            candidates = [v for v in self.variants if v.implementation == wanted and v.operator == name]
            if candidates:
                found[name] = candidates[-1]
        return found
