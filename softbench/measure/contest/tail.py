"""The end of what a worker prints: only the last bytes are kept."""

from softbench.measure.worker.traces import FAULT
from softbench.texts import printable

MOST_BYTES = 16_000


class Tail:
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
        own = self.text.rpartition(FAULT)[0] if FAULT in self.text else self.text
        lines = [line.strip() for line in own.splitlines() if line.strip()]
        return printable(lines[-1])[:200] if lines else ""
