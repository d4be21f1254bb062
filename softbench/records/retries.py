"""What a resumed run measures again although it has all records: what other processes prevented."""

from collections.abc import Sequence

from softbench.model import Record, Status, calibration, notes

CROWDED_OUT = "other processes held memory on this GPU (see the notes); --softbench-resume measures the case again"


def is_due(case: Sequence[Record], clock: str) -> bool:
    """Whether a case needs a second run: for lack of memory, of the ranking clock, which was refused, or of the sources."""
    return any(was_crowded_out(r) or r.is_of_other_sources or calibration.refusal(r.calibrations, clock) for r in case)


def was_crowded_out(record: Record) -> bool:
    """Whether it may have run out of memory because another process held it."""
    return record.status is Status.OUT_OF_MEMORY and any(note.startswith(notes.ALSO_ON_GPU) for note in record.notes)
