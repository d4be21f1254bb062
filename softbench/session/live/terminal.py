"""Where and when the running contest is drawn on pytest's terminal."""

import contextlib
import os
import shutil
import time
from typing import Any

from softbench.measure.contest.progress import Progress
from softbench.model import Case
from softbench.session.journal import Journal
from softbench.session.live.board import LiveBoard
from softbench.session.live.pace import Pace, clock_text

FRAME_S = 0.25
"""Least time between two frames, except for the first frame of a stage."""
AMID_ROUNDS_S = 2.0
"""Least age of a frame before it is redrawn between two rounds that count. On a GPU a placement rarely lasts that long, and the
round after the placing of buffers is discarded anyway: nearly all frames of a heat are drawn there."""
_NO_CURSOR = ("dumb", "unknown")


class Live:
    """The board of the run, or its line. Until something is shown it touches neither rich nor the terminal."""

    def __init__(self, config: Any, journal: Journal) -> None:
        self._config, self._journal = config, journal
        self._pace = Pace(journal.settings.budget_s)
        self._board: LiveBoard | None = None
        self._has_line = self._is_plain = False
        self._drawn, self._stage = -FRAME_S, ""

    def width(self, most: int) -> int:
        """Columns for tables: those of the terminal if there is one, but at most `most`."""
        reporter = reporter_of(self._config)
        return min(most, reporter._tw.fullwidth) if _is_terminal(reporter) else most

    def show(self, progress: Progress) -> None:
        """Draw it if there is a terminal and a frame is due. Raises nothing if the terminal fails."""
        if progress.case is not None:
            self._pace.at(progress.case)
        reporter = reporter_of(self._config)
        if not _is_terminal(reporter) or not self._is_due(progress):
            return
        self._stage = progress.stage
        with contextlib.suppress(OSError), uncaptured(self._config):
            if not self._draw_board(reporter, progress):
                reporter.rewrite(self._words(progress)[0][: max(20, reporter._tw.fullwidth - 1)], erase=True)
                self._has_line = True
        self._drawn = time.monotonic()

    def line(self, text: str) -> None:
        """Write a line in place of what is shown, if there is a reporter."""
        if (reporter := reporter_of(self._config)) is None:
            return
        self.close()
        with uncaptured(self._config):
            reporter.write_line(text)
            reporter.flush()  # else in a pipe it would come late, or among the captured output of a test

    def done(self, case: Case) -> None:
        """A case is done; its duration predicts that of others."""
        self._pace.done(case)

    def close(self) -> None:
        board, had_line = self._board, self._has_line
        self._board, self._has_line, self._stage = None, False, ""
        if board is None and not had_line:
            return
        with contextlib.suppress(OSError), uncaptured(self._config):
            if board is not None:
                board.close()
            else:
                reporter_of(self._config).rewrite("", erase=True)

    def _is_due(self, progress: Progress) -> bool:
        age = time.monotonic() - self._drawn
        return progress.stage != self._stage or age >= (AMID_ROUNDS_S if progress.amid_rounds else FRAME_S)

    def _draw_board(self, reporter: Any, progress: Progress) -> bool:
        """Whether a board is possible here; it is drawn then."""
        if self._board is None and not self._is_plain:
            self._board = _board(reporter)
            self._is_plain = self._board is None
        if self._board is not None:
            size = reporter._tw.fullwidth, shutil.get_terminal_size().lines
            self._board.draw(self._words(progress), progress.players(), size)
        return self._board is not None

    def _words(self, progress: Progress) -> list[str]:
        """How far the run is and what is going on; the time elapsed, and about how much is left."""
        waiting, count = self._journal.waiting_cases, len(self._journal.selection.takes_part)
        times = [f"{clock_text(self._pace.elapsed_s)} elapsed", f"this case {clock_text(self._pace.case_s)}"]
        if left := self._pace.left_s(waiting):
            times.append(f"about {clock_text(left)} left")
        return [f"[{min(count - len(waiting) + 1, count)}/{count}] {progress}", ", ".join(times)]


def reporter_of(config: Any) -> Any:
    """pytest's terminal reporter; None if it is turned off."""
    return config.pluginmanager.get_plugin("terminalreporter")


def uncaptured(config: Any) -> Any:
    """What the block writes reaches the terminal even while a test runs."""
    manager = config.pluginmanager.get_plugin("capturemanager")
    return manager.global_and_fixture_disabled() if manager else contextlib.nullcontext()


def _is_terminal(reporter: Any) -> bool:
    return reporter is not None and bool(getattr(reporter, "isatty", False))


def _board(reporter: Any) -> LiveBoard | None:
    """A board in place of pytest's unfinished line; None without rich, or if the terminal cannot move its cursor."""
    writer = reporter._tw
    file = writer._file
    if os.environ.get("TERM", "").lower() in _NO_CURSOR or not (file.encoding or "").lower().startswith("utf"):
        return None
    used = writer.width_of_current_line
    if used and not reporter.currentfspath:  # the dots of other tests, which stay
        writer.line()
        used = 0
    with contextlib.suppress(ImportError):
        return LiveBoard(file, has_colors=writer.hasmarkup, above=max(0, used - 1) // writer.fullwidth)
    return None
