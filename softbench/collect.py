"""How a run looks to pytest: shapes.yaml holds a collector a case, a case holds an item a variant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from softbench import leaderboard
from softbench.model import Case, Record, Status, Variant
from softbench.run import Bench


class CellFailed(Exception):
    """A cell that did not pass; its text is the whole report."""


class ShapesFile(pytest.File):
    """shapes.yaml as a collector of cases."""

    bench: Bench

    def collect(self) -> Iterator[CaseCollector]:
        for case in self.bench.cases:
            collector = CaseCollector.from_parent(self, name=case.id)
            collector.case, collector.bench = case, self.bench
            yield collector


class CaseCollector(pytest.Collector):
    """One case; its items are measured together, whichever is asked for first."""

    case: Case
    bench: Bench

    def collect(self) -> Iterator[CellItem]:
        for variant in self.bench.variants:
            if variant.operator == self.case.operator:
                yield CellItem.of(self, variant)


class CellItem(pytest.Function):
    """One variant on one case. A Function, so that pytest-benchmark's fixture serves it."""

    case: Case
    variant: Variant
    outcome: Record | None = None

    @classmethod
    def of(cls, parent: CaseCollector, variant: Variant) -> CellItem:
        def cell(request: pytest.FixtureRequest) -> None:
            request.node.measure(request)

        item: CellItem = cls.from_parent(parent, name=variant.id, callobj=cell)
        item.case, item.variant, item.bench = parent.case, variant, parent.bench
        return item

    bench: Bench

    def measure(self, request: pytest.FixtureRequest) -> None:
        """Take the record and speak pytest: pass, skip, xfail or fail."""
        record = self.outcome = self.bench.record(self.case, self.variant)
        if record.status.is_refusal:
            pytest.skip(f"{record.status.value}: {record.reason}")
        if record.status.is_failure:
            if record.known_failure:
                pytest.xfail(f"{record.status.value}, as declared: {record.known_failure}")
            raise CellFailed(f"{record.status.value}: {record.reason}\nrepeat it with: {record.reproduce}")
        if record.status is Status.PASSED and self.config.pluginmanager.hasplugin("benchmark"):
            self._replay(request, record)

    def _replay(self, request: pytest.FixtureRequest, record: Record) -> None:
        """Hand the samples of the ranking clock to pytest-benchmark as rounds, in seconds a launch."""
        run = self.bench.result(self.case)
        board = leaderboard.build(run) if run else None
        cells = {c.record.variant.id: c for case in board.cases for c in case.cells.values()} if board else {}
        cell = cells.get(record.variant.id)
        if cell is None or not cell.samples or run is None:
            return
        seconds = [ns / s.launches / 1e9 for s in cell.samples for rounds in s.ns for ns in rounds]
        clock = run.passport.ranking_clock
        marker = pytest.mark.benchmark(timer=_replaying(seconds, clock), group=self.case.id, disable_gc=False)
        self.add_marker(marker)
        benchmark = request.getfixturevalue("benchmark")
        benchmark.extra_info.update(
            clock=clock,
            bandwidth_gb_s=cell.bandwidth_gb_s,
            latency_interval_ns=[_finite(cell.low_ns), _finite(cell.high_ns)],
            percent_of_roof=cell.percent_of_roof,
            implementation=record.variant.implementation,
            case=record.case.id,
        )
        benchmark.pedantic(_nothing, rounds=len(seconds))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, CellFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.case.id}::{self.name}"


def _finite(bound: float | None) -> float | None:
    """JSON has no infinity."""
    return bound if bound is not None and math.isfinite(bound) else None


def _nothing() -> None:
    return None


def _replaying(seconds: list[float], clock: str) -> Any:
    """A timer whose successive differences are the given samples."""

    def ticks() -> Iterator[float]:
        total = 0.0
        for sample in seconds:
            yield total
            total += sample
            yield total
        while True:
            yield total

    iterator = ticks()

    def timer() -> float:
        return next(iterator)

    timer.__name__ = timer.__qualname__ = f"softbench_{clock}"
    return timer
