"""The words of the project as frozen data. Standard library only; nothing here computes or reads anything.

A `Case` is what is asked, a `Variant` who answers, a `Record` what came of it. Measured facts are stored, figures
that follow from them (bandwidth, ranks) never are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SCHEMA_VERSION = 1
DTYPES = ("float16", "bfloat16", "float32", "float64")
DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
BALANCE = 200.0
"""Flops a byte from which arithmetic is the nearer limit: 989 TFLOP/s over 4.8 TB/s are 206 on an H200."""
WRONG_WHEN_TIMED = "right in the check, wrong in a timed call"
"""How the reason of an INCORRECT cell begins whose implementation was right while it was checked, and not while it was timed."""
SOURCES_CHANGED = "not run, since its files are not those that the run began with"
"""How the reason of a cell begins whose implementation somebody has changed on disk: it says nothing of the kernel."""
IMPOSSIBLE = "impossible"
"""How the reason of an INCORRECT cell begins whose time no machine can reach."""
MAX_DIMENSIONS = 16
MAX_ELEMENTS = 2**48
"""More than any memory holds, and little enough that bytes and times fit 64 bits."""

Scalar = int | float | bool | str


class Status(str, Enum):
    """What came of a cell; the value is the word that is shown and stored."""

    PASSED = "PASSED"
    CHECKED = "CHECKED"
    COMPILED = "COMPILED"
    UNSUPPORTED = "UNSUPPORTED"
    UNAVAILABLE = "UNAVAILABLE"
    INCORRECT = "INCORRECT"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TIMEOUT = "TIMEOUT"
    CRASHED = "CRASHED"

    @property
    def is_success(self) -> bool:
        return self in (Status.PASSED, Status.CHECKED, Status.COMPILED)

    @property
    def is_refusal(self) -> bool:
        return self in (Status.UNSUPPORTED, Status.UNAVAILABLE)

    @property
    def is_failure(self) -> bool:
        return not (self.is_success or self.is_refusal)


@dataclass(frozen=True)
class Case:
    """One question: operator x shape x dtypes x layout x distribution.

    shape is that of the first input; the operator works along the last dimension. layout and distribution are words
    of the operator (`softbench.cases.operators`). A case that is not timed is checked only.
    """

    operator: str
    shape: tuple[int, ...]
    dtype: str
    out_dtype: str
    layout: str = "contiguous"
    distribution: str = "normal"
    timed: bool = True

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1])

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def id(self) -> str:
        """Stable, readable, unique within a run: ``softmax-float16-32768x1024``."""
        dtype = self.dtype if self.out_dtype == self.dtype else f"{self.dtype}_to_{self.out_dtype}"
        parts = [self.operator, dtype, "x".join(map(str, self.shape)) or "scalar"]
        if self.layout != "contiguous":
            parts.append(self.layout)
        if self.distribution != "normal":
            parts.append(self.distribution)
        if not self.timed and self.distribution == "normal":
            parts.append("check")
        return "-".join(parts)


@dataclass(frozen=True)
class KnownFailure:
    """A declared failure: `pattern` matches case ids as in fnmatch."""

    pattern: str
    reason: str


@dataclass(frozen=True)
class Variant:
    """One implementation at one point of its parameters, as declared in its file."""

    implementation: str
    operator: str
    family: str
    path: str
    source_hash: str
    params: tuple[tuple[str, Scalar], ...] = ()
    requires: tuple[str, ...] = ()
    known_failures: tuple[KnownFailure, ...] = ()
    has_cubins: bool = False
    summary: str = ""
    ladder: bool = False
    """A step on the way to a better kernel: takes part only where it is named."""

    @property
    def id(self) -> str:
        if not self.params:
            return self.implementation
        return f"{self.implementation}[{','.join(f'{k}={v}' for k, v in self.params)}]"


@dataclass(frozen=True)
class Samples:
    """Raw samples of one clock in one heat.

    ns[p][r] is the time in nanoseconds of `launches` launches in placement p, round r. Entrants of one heat that have
    a sample (p, r) took it in the same shuffled round, so ratios of equal (p, r) are paired.
    cache is "cold" where a sample touches at least twice the L2 cache, else "warm"; "" where it has no meaning.
    """

    clock: str
    launches: int
    ns: tuple[tuple[int, ...], ...]
    cache: str = ""
    heat: int = 0


@dataclass(frozen=True)
class KernelResources:
    """What a compiled kernel takes: registers a thread, bytes of stack a thread, static shared memory in bytes."""

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Telemetry:
    """The GPU's state in one placement: lowest clocks, highest power and temperature; None where they cannot be read.

    throttle holds every reason that was seen, "power_cap+sw_thermal"; "" where there was none.
    """

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: int | None = None
    temperature_c: int | None = None
    throttle: str = ""

    @property
    def is_throttled(self) -> bool:
        """For another reason than the power limit, at which a card under load may run all the time."""
        return bool(set(self.throttle.split("+")) - {"", "power_cap"})


@dataclass(frozen=True)
class Traffic:
    """What hardware counters saw of one call, the mean over some calls in a row; bytes of device memory, ns of its kernels.

    Hit rates are in per cent of the sectors asked for in a level of cache; None where they were not read.
    """

    read_bytes: int
    written_bytes: int
    kernels_ns: int
    l1_hit_percent: float | None = None
    l2_hit_percent: float | None = None


@dataclass(frozen=True)
class Calibration:
    """What a clock read of kernels that spin on the GPU's own timer, before anything was measured.

    Kernels of the kind i spun for known_ns[i] by that timer, and the clock read read_ns[i] for one of them, medians. Both are
    empty where fault says why nothing was read.
    """

    clock: str
    known_ns: tuple[int, ...] = ()
    read_ns: tuple[int, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Record:
    """One cell of a run: what one variant did on one case. Only a PASSED record carries samples.

    gpu is the id of the card that it was made on, "" for a CPU; all records of a case are made on the same one. The first
    record of a timed case carries the calibrations of the clocks that were to be used. ideal_flops is 0 for an operator that is
    bound by memory. A failure has the lines of its traceback, from the implementation's own file down, and the end of what the
    implementation printed; each at most some 8 KB.
    """

    case: Case
    variant: Variant
    status: Status
    reason: str = ""
    reproduce: str = ""
    samples: tuple[Samples, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    telemetry: tuple[Telemetry, ...] = ()
    traffic: Traffic | None = None
    notes: tuple[str, ...] = ()
    ideal_bytes: int = 0
    ideal_flops: int = 0
    role: str = "entrant"
    known_failure: str = ""
    best_of: int = 1
    gpu: str = ""
    calibrations: tuple[Calibration, ...] = ()
    traceback: tuple[str, ...] = ()
    output: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.samples and self.status is not Status.PASSED:
            raise ValueError(
                f"{self.case.id} / {self.variant.id}: {self.status.value} carries samples; only PASSED may"
            )
        if self.status is not Status.PASSED and not self.reason:
            raise ValueError(f"{self.case.id} / {self.variant.id}: {self.status.value} needs a reason")

    @property
    def key(self) -> tuple[str, str]:
        """Case and variant, by which a run tells its records apart: a roof's kernel may also be an entrant."""
        return self.case.id, f"roof/{self.variant.id}" if self.role == "roof" else self.variant.id

    @property
    def is_wrong_when_timed(self) -> bool:
        """Whether it was right where it was checked and wrong, or impossibly fast, where it was timed: nothing else of it is
        believed then."""
        return self.status is Status.INCORRECT and self.reason.startswith((WRONG_WHEN_TIMED, IMPOSSIBLE))

    @property
    def is_of_other_sources(self) -> bool:
        """Whether it was not run, as its files had changed since the run began: no failure of the kernel."""
        return self.status is Status.RUNTIME_ERROR and self.reason.startswith(SOURCES_CHANGED)

    def clock(self, name: str) -> tuple[Samples, ...]:
        """All samples of one clock, one entry a heat."""
        return tuple(s for s in self.samples if s.clock == name)


@dataclass(frozen=True)
class Passport:
    """Where and with what a run was made; one a run, the header of its file.

    cases is how many it was asked for, 0 where that is not known: a run that was ended has fewer.
    """

    run_id: str
    started: str
    profiles: tuple[str, ...]
    ranking_clock: str
    seed: int
    command: str
    device: dict[str, Any] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    cases: int = 0


@dataclass(frozen=True)
class Run:
    """Everything one command wrote: the passport and the newest record of every cell, in file order."""

    passport: Passport
    records: tuple[Record, ...]
