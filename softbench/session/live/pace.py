"""How long a run has taken, and about how much longer it will."""

import statistics
import time
from collections.abc import Callable, Iterable

from softbench.model import Case


class Pace:
    """Durations of cases in seconds, separate for timed cases and those that are only checked."""

    def __init__(self, budget_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._budget_s, self._now = budget_s, now
        self._took: dict[bool, list[float]] = {True: [], False: []}
        self._case: Case | None = None
        self._began = self._case_began = now()

    def at(self, case: Case) -> None:
        """A case is under way; its time starts with the first call for it."""
        if case != self._case:
            self._case, self._case_began = case, self._now()

    def done(self, case: Case) -> None:
        if case == self._case:
            self._took[case.timed].append(self.case_s)
            self._case = None

    @property
    def elapsed_s(self) -> float:
        return self._now() - self._began

    @property
    def case_s(self) -> float:
        return self._now() - self._case_began if self._case else 0.0

    def left_s(self, waiting: Iterable[Case]) -> float:
        """For the current case and the others: each as long as its kind took so far, else the budget of a timed case."""
        others = sum(self._expected_s(case) for case in waiting if case != self._case)
        return others + max(0.0, self._expected_s(self._case) - self.case_s if self._case else 0.0)

    def _expected_s(self, case: Case) -> float:
        took = self._took[case.timed]
        return statistics.fmean(took) if took else self._budget_s * case.timed


def clock_text(seconds: float) -> str:
    """Minutes and seconds, with hours where there are some: "0:07", "12:40", "1:02:03"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
