"""What a run that is gone on with measures again, though it has all records: what another process kept from being measured."""

from __future__ import annotations

from collections.abc import Sequence

from softbench.model import Record, Status, calibration, notes

CROWDED_OUT = "other processes held memory on this GPU (see the notes); --softbench-resume measures the case again"


def is_due(case: Sequence[Record], clock: str) -> bool:
    """Whether a case is worth a second run: for want of memory, of the clock that ranks, which was refused, or of the sources."""
    return any(was_crowded_out(r) or r.is_of_other_sources or calibration.refusal(r.calibrations, clock) for r in case)


def was_crowded_out(record: Record) -> bool:
    """Whether it may have run out of memory because somebody else had taken it."""
    return record.status is Status.OUT_OF_MEMORY and any(note.startswith(notes.ALSO_ON_GPU) for note in record.notes)
