"""What the parent makes of messages and deaths."""

import signal

import pytest
from support.grids import over

from softbench.measure.contest import workers
from softbench.measure.worker import wire
from softbench.model import Status


@over(
    "code, text",
    [
        (-signal.SIGSEGV, "died of SIGSEGV"),
        (-signal.SIGKILL, "by the system when memory ran out"),
        (-40, "died of signal 40"),
        (0, "ended itself with exit code 0"),
        (wire.LOST_CONNECTION, "closed its connection to the harness"),
        (None, "the process is gone"),
    ],
)
def test_death_is_named(code, text):
    class Dead:
        last_words = "bye"

        def end(self, *, kill):
            return code

    answer = workers._death(Dead(), 0.0)
    assert text in answer.reason
    assert answer.reason.endswith("; its last words: bye")
    assert (answer.status, answer.fatal) == (Status.CRASHED, True)


def test_message_arrives_in_pieces():
    buffer = wire.Buffer()
    for i, byte in enumerate(b'\x0c\0\0\0{"ok": true}'):
        assert buffer.take() is None, i
        buffer.feed(bytes([byte]))
    assert buffer.take() == {"ok": True}


@over("body", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 50_000])
def test_what_is_no_message_is_malformed(body):
    buffer = wire.Buffer()
    buffer.feed(len(body).to_bytes(4, "little") + body)
    with pytest.raises(wire.Malformed):
        buffer.take()
