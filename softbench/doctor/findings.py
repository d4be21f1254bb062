"""The input of the parts of an examination, and the findings of each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from softbench.analysis.document import Dataset
from softbench.measure import device

NOT_TRIED = "not tried here: needs a GPU"


@dataclass(frozen=True)
class Target:
    """The machine under examination. `contests`, `reports` and `progress` as for `softbench.doctor.examine`."""

    card: device.Gpu | None
    reports: Path
    contests: int | None
    progress: Callable[[str], None]


@dataclass(frozen=True)
class Findings:
    """The findings of one part, in lines of text.

    failures  what is wrong
    trust     what it means for the numbers of this machine
    data      what was read, for programs
    """

    title: str
    lines: tuple[str, ...]
    failures: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    data: tuple[Dataset, ...] = ()
