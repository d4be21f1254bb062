"""What the workers of a run send to its controller, which alone writes it: each case as lines, with its first report."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from softbench.model import Case, Passport, Record, Run
from softbench.records import store
from softbench.records.store import lines


@dataclass(frozen=True)
class Shard:
    """One worker's share of a run: the worker's name, its host's if there are several, and what it finds when it resumes."""

    passport: Passport
    worker: str
    host: str = ""
    old: Run | None = None


def pack(records: Sequence[Record]) -> str:
    return b"".join(map(lines.cell_line, records)).decode()


def unpack(worker: str, text: str) -> list[Record]:
    """The records of these lines. Raises StoreError."""
    rows = enumerate(text.encode().split(b"\n"), start=1)
    found = (lines.cell(Path(worker), lines.StoredLine(number, row, False)) for number, row in rows if row)
    return [record for record in found if record is not None]


def whole(content: bytes) -> Run | None:
    """The run of which this is the file, as it is read elsewhere; None for no file. Raises StoreError."""
    if not content:
        return None
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(content)
        file.flush()
        return store.read(Path(file.name))


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
        rest.rewrite(whole.passport, [*ordered, *whole.repeats])
        os.replace(rest.path, run)
    except (OSError, store.StoreError):
        with contextlib.suppress(OSError):
            rest.path.unlink()
