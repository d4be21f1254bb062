"""Where several workers write the records of one run: a file each, in a folder beside the run's own file.

A case goes into the run's file as soon as its worker reports it. What has not got so far when everything is killed is
taken over when the run is gone on with, so that a case is lost only where its own worker was.
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
class Part:
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
    """Move what the parts hold and the run does not into the run. A part that cannot be read stays. Raises StoreError."""
    have = set(store.read(run).records)
    for part in sorted(folder(run).glob("*.jsonl")):
        try:
            for damage in store.mend(part):
                note(f"{damage}: set aside in {part.name}.damaged")
            found = [record for record in store.read(part).records if record not in have]
        except store.StoreError as error:
            note(f"{error}; it stays where it is, and its cases are measured again")
            continue
        if found:
            store.Writer(run).append(found)
        part.unlink(missing_ok=True)
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
