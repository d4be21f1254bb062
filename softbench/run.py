"""One command's run: which cases and variants take part, their records, what is kept of an earlier run."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softbench import device, matrix, operators, passport, registry, roof, store
from softbench.contest import traffic
from softbench.contest.contest import Contest, Rules
from softbench.contest.crew import Crew
from softbench.model import Case, Passport, Record, Run, Variant
from softbench.settings import Settings, SettingsError


@dataclass
class Bench:
    """Everything between the options and the records. Collection reads `cases` and `variants`; items call `record`."""

    settings: Settings
    cases: tuple[Case, ...]
    variants: tuple[Variant, ...]
    takes_part: dict[Case, list[Variant]] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda text: None
    on_case: Callable[[Case], None] = lambda case: None
    _records: dict[tuple[Case, str], Record] = field(default_factory=dict)
    _contest: Contest | None = None
    _writer: store.Writer | None = None
    _passport: Passport | None = None
    _failed: dict[Case, str] = field(default_factory=dict)

    @classmethod
    def plan(cls, settings: Settings) -> Bench:
        """Read shapes and implementations; no process is started and nothing heavy is imported."""
        shapes = matrix.load(settings.shapes)
        cases: dict[str, Case] = {}
        for name in settings.profiles:
            for case in shapes.profile(name):
                if cases.setdefault(case.id, case) != case:
                    raise SettingsError(
                        f"--softbench-profile: {case.id} differs between the profiles {', '.join(settings.profiles)}"
                    )
        if settings.traffic:
            _require_counters()
        selected = matrix.select(tuple(cases.values()), **{name: text or None for name, text in settings.axes})
        return cls(settings, selected, registry.find(settings.impls))

    def resume(self) -> None:
        """Take over the finished cases of an earlier run, whose file this one goes on with."""
        path = store.find(self.settings.reports, self.settings.resume)
        old = store.read(path)
        if why := passport.difference(old.passport):
            raise SettingsError(f"--softbench-resume: {path.name} cannot be gone on with: {why}; start a new run")
        self._writer, self._passport = store.Writer(path), old.passport
        baselines = self._baselines({case.operator for case in self.takes_part})
        for case, variants in self.takes_part.items():
            theirs = [r for r in old.records if r.case == case]
            always = [baselines[case.operator]] if case.timed and case.operator in baselines else []
            if store.finished(old, case, [*variants, *always]):
                self._keep(theirs)
            else:  # run again whole: old samples cannot be paired with new ones
                had = {r.variant.id for r in theirs if r.role == "entrant"}
                also = [v for v in self.variants if v.operator == case.operator and v.id in had]
                variants += [v for v in also if v not in variants]
        self._keep([r for r in old.records if r.case not in self.takes_part])

    def open(self) -> None:
        """Make the run's file, or find the one to go on with, before anything is measured."""
        if self.settings.resume:
            self.resume()
        elif self._writer is None:
            self._issue()

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
        records = sorted(self._records.values(), key=lambda r: order.get(r.case, len(order)))
        return Run(self._passport, tuple(records))

    @property
    def record_file(self) -> Path | None:
        return self._writer.path if self._writer else None

    def close(self) -> None:
        """End all processes of the run."""
        if self._contest is not None:
            self._contest.crew.close()
            self._contest = None

    def _run(self, case: Case) -> None:
        if case in self._failed:
            raise RuntimeError(self._failed[case])
        contest, writer = self._start()
        began = time.monotonic()
        try:
            records = contest.run(case, self.takes_part[case])
            writer.append(records)
        except Exception as error:
            self._failed[case] = f"the contest of {case.id} failed already: {error}"
            raise
        self._keep(records)
        self.progress(f"{case.id}: done in {time.monotonic() - began:.1f} s")
        self.on_case(case)

    def _progress(self, text: str) -> None:
        """How far the run is, before what is going on."""
        finished = {case for case, _ in self._records}
        self.progress(f"[{min(len(finished) + 1, len(self.takes_part))}/{len(self.takes_part)}] {text}")

    def _keep(self, records: Sequence[Record]) -> None:
        for record in records:
            self._records[record.case, f"roof/{record.variant.id}" if record.role == "roof" else record.variant.id] = (
                record
            )

    def _start(self) -> tuple[Contest, store.Writer]:
        issued, writer = self._issue()
        if self._contest is None:
            self._contest = self._make_contest(issued.seed)
        return self._contest, writer

    def _issue(self) -> tuple[Passport, store.Writer]:
        if self._passport is None:
            seed = self.settings.seed if self.settings.seed is not None else secrets.randbits(32)
            self._passport = passport.issue(self.settings, self.variants, seed)
        if self._writer is None:
            self._writer = store.Writer.create(self.settings.reports, self._passport)
        return self._passport, self._writer

    def _make_contest(self, seed: int) -> Contest:
        card = device.gpu()
        kind = "cuda" if card is not None else "cpu"
        names = {case.operator for case in self.cases}
        chosen = self.settings
        rules = Rules(chosen.budget_s, chosen.timeout_s, seed, ",".join(chosen.profiles), chosen.traffic)
        return Contest(
            rules,
            Crew(kind),
            card,
            roofs={name: roof.variants(operators.get(name).roof, kind) for name in names},
            baselines=self._baselines(names),
            read_telemetry=device.Monitor(card).read,
            progress=self._progress,
        )

    def _baselines(self, names: set[str]) -> dict[str, Variant]:
        found: dict[str, Variant] = {}
        for name in names:
            wanted = operators.get(name).baseline
            candidates = [v for v in self.variants if v.implementation == wanted and v.operator == name]
            if candidates:
                found[name] = candidates[-1]
        return found


def _require_counters() -> None:
    if device.gpu() is None:
        raise SettingsError("--softbench-traffic: counts bytes on a GPU, and no CUDA GPU is visible here")
    if not traffic.profiler():
        raise SettingsError(
            "--softbench-traffic: ncu is neither on the PATH nor in $CUDA_HOME/bin; install Nsight Compute, or leave it out"
        )
