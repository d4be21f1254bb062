"""Who shares a workspace of impls/cute, without a GPU."""

import types

import pytest

torch = pytest.importorskip("torch")
from impls.cute import _workspace


@pytest.fixture
def streams(monkeypatch):
    """A GPU without a GPU: `now.stream` is the current stream, `now.capture` the capture that it is in, or 0."""
    now = types.SimpleNamespace(stream=1, capture=0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: now.stream, raising=False)
    monkeypatch.setattr(_workspace, "capturing", lambda device: now.capture > 0)
    monkeypatch.setattr(_workspace, "capture_id", lambda stream: now.capture)
    for table in ("_of_streams", "_of_captures"):
        monkeypatch.setattr(_workspace, table, {})
    memory = torch.zeros(4 * _workspace.ALIGN_WORDS, dtype=torch.int64)
    monkeypatch.setattr(_workspace, "_reserves", {None: (memory, 0)})
    monkeypatch.setattr(_workspace, "_zeroed", lambda device, words: torch.zeros(words, dtype=torch.int64))
    now.memory = memory
    return now


def test_who_shares_a_workspace(streams):
    device = torch.device("cpu")

    def place(stream, capture, words=20):
        streams.stream, streams.capture = stream, capture
        found = _workspace.workspace(device, words)
        assert found.shape == (words,)
        assert not found.any()
        return found.data_ptr()

    eager = place(1, 0)
    assert place(1, 0) == eager
    assert place(2, 0) != eager
    streams.stream = 1
    other = _workspace.workspace(device, 20, (66, 34, 2))
    assert other.data_ptr() != eager, "words of another layout are no tags and pairs of this one"
    captured = place(1, 7)
    assert captured == streams.memory.data_ptr()
    assert place(1, 7) == captured, "launches of one stream in one capture are ordered"
    branch, later = place(2, 7), place(1, 8)
    assert len({eager, captured, branch, later}) == 4
    assert abs(branch - captured) % 256 == 0


def test_a_reserve_that_is_used_up_is_followed_by_another(streams, monkeypatch):
    device, inside = torch.device("cpu"), range(streams.memory.data_ptr(), streams.memory.data_ptr() + 1024)
    later = torch.zeros(4 * _workspace.ALIGN_WORDS, dtype=torch.int64)
    asked = []
    monkeypatch.setattr(_workspace, "_zeroed", lambda device, words: asked.append(words) or later)
    places = []
    for capture in range(1, 7):
        streams.capture = capture
        places.append(_workspace.workspace(device, 20))
    assert [p.data_ptr() in inside for p in places] == [True] * 4 + [False] * 2
    assert places[4].data_ptr() == later.data_ptr() != places[5].data_ptr()
    assert _workspace.workspace(device, 20).data_ptr() == places[5].data_ptr(), "launches of one capture share one"
    assert asked == [_workspace.RESERVE_WORDS]
    assert not any(p.any() for p in places)


def test_a_workspace_of_any_size_has_a_reserve(streams):
    streams.capture = 1
    most = _workspace.RESERVE_WORDS + 1
    assert len(_workspace.workspace(torch.device("cpu"), most)) == most
