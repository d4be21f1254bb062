"""What a worker may answer: a type per operation, with bounds for everything in it. Anything else is nonsense."""

from dataclasses import dataclass
from typing import Any

from softbench import texts, typed
from softbench.measure.worker.wire import Message
from softbench.model import Accuracy, Calibration, KernelResources, Status
from softbench.texts import printable

MOST_VALUES = 1000
"""Entries of one list."""
MOST_CHARACTERS = 1000
"""A longer text is cut."""
_NUMBERS = range(2**53)
"""Bytes up to 9 PB, nanoseconds up to 104 days; JSON's readers agree on these."""
FAILURES = (
    Status.INCORRECT,
    Status.UNSUPPORTED,
    Status.UNAVAILABLE,
    Status.COMPILE_ERROR,
    Status.RUNTIME_ERROR,
    Status.OUT_OF_MEMORY,
)
"""What a worker may say about its own case. Whether one passed, died or was late, the parent decides."""

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Done:
    """It was done; there is nothing to report."""


@dataclass(frozen=True)
class Prepared:
    """How accurate what was checked is: the word of an author's process, and of its open cells only."""

    accuracy: Accuracy | None = None


@dataclass(frozen=True)
class Memory:
    """Free device memory in bytes; left out without a GPU."""

    free_bytes: int = 0


@dataclass(frozen=True)
class Time:
    """Nanoseconds, at least one."""

    ns: int


@dataclass(frozen=True)
class Calls:
    """Nanoseconds of single calls, in groups."""

    call: Groups


@dataclass(frozen=True)
class Cold:
    """Nanoseconds of single launches after a flush of the L2, in groups."""

    cold: Groups


@dataclass(frozen=True)
class Spans:
    """Nanoseconds of kernels on the device, in groups, or why they were not seen."""

    device: Groups = ()
    unseen: str = ""


@dataclass(frozen=True)
class HandedOver:
    """The file of a hand-over, or why there is none."""

    path: str = ""
    open_because: str = ""


@dataclass(frozen=True)
class Kernels:
    """What the kernels of a cubin use."""

    kernels: tuple[KernelResources, ...]


@dataclass(frozen=True)
class Taken:
    """What the kernels of a hand-over use, the digest of its file, and how accurate its outputs are."""

    kernels: tuple[KernelResources, ...]
    digest: str = ""
    accuracy: Accuracy | None = None


@dataclass(frozen=True)
class Calibrations:
    """One for each clock."""

    calibrations: tuple[Calibration, ...]


@dataclass(frozen=True)
class Failure:
    """fatal asks for a new process."""

    status: Status
    reason: str
    fatal: bool = False
    traceback: tuple[str, ...] = ()


MORE = "; --softbench-timeout gives more"
OPERATIONS: dict[str, tuple[type, str, str]] = {
    "hello": (Memory, "the start of its process", ""),
    "prepare": (Prepared, "compiling and checking", MORE),
    "author": (HandedOver, "compiling", MORE),
    "take": (Taken, "checking", MORE),
    "prove": (Done, "proving its operator", MORE),
    "compile": (Kernels, "building cubins", MORE),
    "estimate": (Time, "the first timed calls", MORE),
    "place": (Done, "making the buffers of a placement", MORE),
    "turn": (Time, "a timed turn", MORE),
    "verify": (Done, "comparing what timed calls wrote", MORE),
    "call": (Calls, "timing single calls", MORE),
    "cold": (Cold, "timing single launches", MORE),
    "device": (Spans, "timing by the device clock", MORE),
    "calibrate": (Calibrations, "checking the clocks", ""),
    "release": (Memory, "giving its memory back", ""),
    "drop": (Done, "leaving the case", ""),
}
"""Operation -> what a good answer to it holds, what messages call it when it took too long, and which option sets the limit."""
_TIMES = {"ns", "call", "cold", "device"}
"""Fields of times: none of them is 0, and none of their lists is empty."""


def read(operation: str, message: Message) -> Message:
    """The fields of a good answer, validated by the types above. Raises ValueError for any other message."""
    if operation == "turn" and type(ns := message.get("ns")) is int and 0 < ns < _NUMBERS.stop and len(message) == 1:
        return message  # between two timed turns every microsecond counts, and the way below takes six
    kind, _, _ = OPERATIONS[operation]
    return _checked(kind, message)


def read_failure(message: Message) -> Failure:
    """What went wrong. Raises ValueError if that is nothing that a worker can know."""
    failure = Failure(**_checked(Failure, message))
    if failure.status not in FAILURES or not failure.reason:
        raise ValueError("no failure of its own")
    return failure


def _checked(kind: type, message: Message) -> Message:
    try:
        built: Any = typed.build(kind, message)
        return {name: _bounded(getattr(built, name), name in _TIMES) for name in message}
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


def _bounded(value: Any, is_time: bool = False) -> Any:
    """A value with its texts cut. Raises ValueError for numbers and lists that no answer can have."""
    if isinstance(value, Status | bool):
        return value
    if isinstance(value, int) and (value not in _NUMBERS or value < is_time):
        raise ValueError(f"the number {value}")
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, tuple):
        if len(value) > MOST_VALUES or (is_time and not value):
            raise ValueError(f"a list of {len(value)} values")
        return tuple(_bounded(item, is_time) for item in value)
    if isinstance(value, KernelResources | Calibration | Accuracy):
        return type(value)(**{name: _bounded(item) for name, item in vars(value).items()})
    return value


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text from a worker on one printable line, cut if it is long."""
    return texts.cut(printable(text[: most + 1]), most)
