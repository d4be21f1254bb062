"""Messages between processes: a length, then JSON. Data only, never pickle."""

import json
import socket
import struct
from typing import Any

from softbench.model import Case

Message = dict[str, Any]
_LENGTH = struct.Struct("<I")
MAX_BYTES = 1 << 20
"""Far above any answer: the kernels of a variant take kilobytes."""
LOST_CONNECTION = 113
"""Exit code of a worker that closed its own channel, whether it then ended or had to be killed."""


class Closed(Exception):
    """The other side is gone."""


class Malformed(Exception):
    """The other side sent something that is not a message."""


def send(sock: socket.socket, message: Message) -> None:
    """Send one message; raises `Closed` if the other side is gone."""
    body = json.dumps(message).encode()
    try:
        sock.sendall(_LENGTH.pack(len(body)) + body)
    except OSError as error:
        raise Closed(str(error)) from None


def receive(sock: socket.socket) -> Message:
    """Receive one message, blocking; raises `Closed` at the end of the stream."""
    buffer = Buffer()
    while (message := buffer.take()) is None:
        try:
            chunk = sock.recv(buffer.wanted)
        except OSError as error:
            raise Closed(str(error)) from None
        if not chunk:
            raise Closed("end of stream")
        buffer.feed(chunk)
    return message


class Buffer:
    """Assembles one message from the pieces that arrive."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def wanted(self) -> int:
        """Bytes still missing of this message, so that the next one stays in the socket."""
        missing = _LENGTH.size - len(self._data)
        if missing <= 0:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MAX_BYTES:
                raise Malformed(f"a message of {length} bytes")
            missing += length
        return missing

    def feed(self, chunk: bytes) -> None:
        self._data += chunk

    def take(self) -> Message | None:
        """The message, once it is whole."""
        if self.wanted:
            return None
        try:
            message = json.loads(self._data[_LENGTH.size :])
        except (ValueError, RecursionError) as error:
            raise Malformed(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise Malformed("not an object")
        return message


def case_of(data: dict[str, Any]) -> Case:
    return Case(**{**data, "shape": tuple(data["shape"]), "params": tuple(map(tuple, data.get("params", ())))})
