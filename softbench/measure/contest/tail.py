"""The end of what a worker prints: only so much is kept, however much it is."""

from __future__ import annotations

from softbench.texts import printable

MOST_BYTES = 16_000
_FAULT = "Fatal Python error: "
"""With this Python's fault handler begins to tell where a process was when a signal ended it."""


class Tail:
    """Bytes of a pipe, the last ones."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, chunk: bytes) -> None:
        self._data = (self._data + chunk)[-MOST_BYTES:]

    def forget(self) -> None:
        self._data = b""

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")

    @property
    def last_words(self) -> str:
        """The last line that the process itself printed and that says something."""
        said = self.text
        own = said.rpartition(_FAULT)[0] if _FAULT in said else said
        lines = [line.strip() for line in own.splitlines() if line.strip()]
        return printable(lines[-1])[:200] if lines else ""
