"""Who hears of a run while it is measured."""

from collections.abc import Callable
from dataclasses import dataclass

from softbench.measure.contest.progress import Progress
from softbench.model import Case


@dataclass(frozen=True)
class Listener:
    """progress: what is going on now. note: a line for the user. on_case: all records of a case are there."""

    progress: Callable[[Progress], None] = lambda progress: None
    note: Callable[[str], None] = lambda text: None
    on_case: Callable[[Case], None] = lambda case: None
