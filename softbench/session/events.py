"""`--softbench-events`: what happens in a run, as it happens, one line of JSON per event, for other programs."""

import contextlib
import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

from softbench.measure.contest.progress import Progress
from softbench.model import Case, Run
from softbench.session.listener import Listener
from softbench.session.replay import finite
from softbench.session.settings import SettingsError
from softbench.texts import printable

_MOST = 500
"""Characters of a reason."""


class Events:
    """The open file; nothing is written without one. What cannot be written ends the events, not the run."""

    def __init__(self, path: Path | None) -> None:
        """Raises SettingsError if the file cannot be opened. It is appended to: a pipe works too."""
        self._path, self._last = path, ("", "")
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = path.open("a", encoding="utf-8")
            except OSError as error:
                raise SettingsError(f"--softbench-events: {path}: {error.strerror}") from None
        self._note: Callable[[str], None] = lambda text: None

    def told(self, listener: Listener, result: Callable[[Case], Run | None]) -> Listener:
        """The listener, whose events are written before it hears of them; result has the records of a case."""
        if self._file is None:
            return listener
        self._note = listener.note

        def progress(seen: Progress) -> None:
            if not seen.amid_rounds:
                self._step(seen)
            listener.progress(seen)

        def on_case(case: Case) -> None:
            self._cells(result(case))
            listener.on_case(case)

        return Listener(progress, listener.note, on_case)

    def begin(self, records: Path, cases: int) -> None:
        self._write("begin", records=str(records), cases=cases)

    def end(self, exit_code: int) -> None:
        """Nothing follows."""
        self._write("end", exit_code=exit_code)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _step(self, seen: Progress) -> None:
        """A stage of a case, when it begins: a round is none."""
        now = (seen.case.id if seen.case else "", seen.stage)
        if now != self._last:
            self._last = now
            self._write("stage", case=now[0], stage=now[1])

    def _cells(self, run: Run | None) -> None:
        from softbench.analysis import leaderboard

        for board in leaderboard.build(run).cases if run else ():
            for cell in board.cells.values():
                record = cell.record
                self._write(
                    "cell",
                    case=board.case.id,
                    implementation=record.variant.id,
                    status=record.status.value,
                    reason=printable(record.reason)[:_MOST],
                    time_ns=finite(cell.latency_ns),
                    low_ns=finite(cell.low_ns),
                    high_ns=finite(cell.high_ns),
                    percent_of_roof=finite(cell.percent_of_roof),
                    tier=record.tier,
                    open_because=printable(record.open_because)[:_MOST],
                )

    def _write(self, event: str, **fields: Any) -> None:
        if self._file is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        try:
            self._file.write(json.dumps({"event": event, "at": now, **fields}, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:  # also a pipe without a reader
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
            self._note(f"--softbench-events: {self._path}: {error.strerror}; no further events are written")
