"""How a run looks to pytest: shapes.yaml holds a collector a case, a case holds an item a variant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from softbench import stats
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
        if record.known_failure:
            self.user_properties.append(("softbench_unexpected_pass", record.known_failure))
        if record.status is Status.PASSED and self.config.pluginmanager.hasplugin("benchmark"):
            self._replay(request, record)

    def _replay(self, request: pytest.FixtureRequest, record: Record) -> None:
        """Hand the samples of the ranking clock to pytest-benchmark as rounds, in seconds a launch."""
        clock = "graph" if record.clock("graph") else "wall"
        samples = record.clock(clock)
        seconds = [ns / s.launches / 1e9 for s in samples for rounds in s.ns for ns in rounds]
        if not seconds:
            return
        timer = _replaying(seconds, clock)
        self.add_marker(pytest.mark.benchmark(timer=timer, group=self.case.id, disable_gc=False))
        benchmark = request.getfixturevalue("benchmark")
        low, high = stats.median_interval(samples[0])
        latency = stats.per_launch_ns(samples[0])
        benchmark.extra_info.update(
            clock=clock,
            bandwidth_gb_s=record.ideal_bytes / latency,
            latency_interval_ns=[bound if math.isfinite(bound) else None for bound in (low, high)],
            percent_of_roof=self._percent_of_roof(record),
            implementation=record.variant.implementation,
            case=record.case.id,
        )
        benchmark.pedantic(_nothing, rounds=len(seconds))

    def _percent_of_roof(self, record: Record) -> float | None:
        run = self.bench.result()
        roofs = (
            [r for r in run.records if r.role == "roof" and r.case == self.case and r.status is Status.PASSED]
            if run
            else []
        )
        for mine in record.samples:
            for theirs in roofs[0].samples if roofs else ():
                if mine.clock == theirs.clock in ("graph", "wall") and mine.heat == theirs.heat:
                    return 100 * stats.compare(theirs, mine).ratio
        return None

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, CellFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.case.id}::{self.name}"


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
