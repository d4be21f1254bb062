"""The files that several workers of one run write: one shard per worker, in a folder next to the run's own file.

A case goes into the run's file as soon as its worker reports it. If everything is killed before that, the case is taken
over when the run is resumed, so a case is lost only together with its own worker.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from softbench.model import Case, Passport, Record, Run
from softbench.records import store
from softbench.records.store import lines


@dataclass(frozen=True)
class Shard:
    """One worker's share of a run: the run's file, its passport, and the worker's name."""

    run: Path
    passport: Passport
    worker: str

    def create(self) -> store.Writer:
        """The worker's own file, a run that can be read alone. Raises StoreError."""
        return store.Writer.create(folder(self.run), self._named())

    def of_case(self, case: Case) -> list[Record]:
        """What the worker has written of a case, which is mostly its last one. Raises StoreError."""
        found: list[Record] = []
        for row in reversed(lines.rows(self._path)[1:]):
            record = lines.cell(self._path, row)
            if record is not None and record.case == case:
                found.append(record)
            elif found:
                break
        return found[::-1]

    def whole(self) -> Run:
        """All that a worker has written that writes no more. Raises StoreError."""
        return store.read(self._path) if self._path.exists() else Run(self.passport, ())

    @property
    def _path(self) -> Path:
        return folder(self.run) / f"{self._named().run_id}.jsonl"

    def _named(self) -> Passport:
        return replace(self.passport, run_id=f"{self.passport.run_id}-{self.worker}")


def folder(run: Path) -> Path:
    return run.with_name(f"{store.run_name(run)}.parts")


def absorb(run: Path, note: Callable[[str], None]) -> None:
    """Move what the shards hold and the run does not into the run. A shard that cannot be read stays. Raises StoreError."""
    have = set(store.read(run).records)
    for shard in sorted(folder(run).glob("*.jsonl")):
        try:
            for damage in store.mend(shard):
                note(f"{damage}: set aside in {shard.name}.damaged")
            found = [record for record in store.read(shard).records if record not in have]
        except store.StoreError as error:
            note(f"{error}; it stays where it is, and its cases are measured again")
            continue
        if found:
            store.Writer(run).append(found)
        shard.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something is left in it, or there never was one
        folder(run).rmdir()


def put_in_order(run: Path, cases: Sequence[Case]) -> None:
    """Rewrite a run with its cases in this order, others behind them: workers come to their ends in any order.

    What cannot be rewritten stays as it is.
    """
    whole, place = store.read(run), {case: number for number, case in enumerate(cases)}
    ordered = sorted(whole.records, key=lambda record: place.get(record.case, len(place)))
    if ordered == list(whole.records):
        return
    rest = store.Writer(run.with_name(f"{run.name}.ordered"))
    try:
        rest.path.unlink(missing_ok=True)
        rest.rewrite(whole.passport, ordered)
        os.replace(rest.path, run)
    except (OSError, store.StoreError):
        with contextlib.suppress(OSError):
            rest.path.unlink()
