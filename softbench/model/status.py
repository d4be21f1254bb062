"""How a cell can end."""

from enum import Enum


class Status(str, Enum):
    """The outcome of a cell; the value is the word that is shown and stored."""

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
