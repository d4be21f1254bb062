"""How the CUDA C++ family speaks to the driver, and who gets which words, with a driver and a device that are not there."""

import ctypes
import importlib
import struct
from unittest.mock import ANY

import pytest
from support.cuda_family import SIBLINGS

torch = pytest.importorskip("torch")
driver = pytest.importorskip("cuda.bindings.driver")
_driver = importlib.import_module(f"{SIBLINGS}._driver")
_workspace = importlib.import_module(f"{SIBLINGS}._workspace")
NUMBERS = struct.Struct("@qq")


def parameters(address, *structs):
    """What a kernel would be passed: the values behind a list of pointers."""
    pointers = (ctypes.c_void_p * len(structs)).from_address(address)
    return [s.unpack(ctypes.string_at(pointers[i], s.size)) for i, s in enumerate(structs)]


@pytest.fixture
def launches(monkeypatch):
    """(kind, what was passed) of the launches that reached the driver."""
    seen = []

    def plain(function, *rest):
        seen.append((function, rest))
        return (driver.CUresult.CUDA_SUCCESS,)

    def special(config, function, address, extra):
        grid = (config.gridDimX, config.blockDimX, config.sharedMemBytes, int(config.hStream), extra)
        words = driver.CUlaunchAttributeID
        asked = {
            words.CU_LAUNCH_ATTRIBUTE_COOPERATIVE: lambda value: value.cooperative,
            words.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: lambda value: value.programmaticStreamSerializationAllowed,
        }
        attributes = {attribute.id.name: asked[attribute.id](attribute.value) for attribute in config.attrs}
        assert config.numAttrs == len(attributes)
        seen.append((function, (grid, attributes, address)))
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuLaunchKernel", plain)
    monkeypatch.setattr(driver, "cuLaunchKernelEx", special)
    return seen


def test_plain_launches_share_the_structure_and_keep_their_constants(launches):
    launcher = _driver.Launcher(NUMBERS.size)
    alone, pair = launcher.parameters(), launcher.parameters(NUMBERS.pack(7, 8))
    made = (launcher.plain("first", 5, 256, alone), launcher.plain("second", 6, 128, pair))
    launcher(0xABC, NUMBERS.pack_into, (1, 2), made)
    assert launches == [("first", (5, 1, 1, 256, 1, 1, 0, 0xABC, alone, 0)), ("second", (6, 1, 1, 128, 1, 1, 0, 0xABC, pair, 0))]
    assert parameters(alone, NUMBERS) == [(1, 2)]
    assert parameters(pair, NUMBERS, NUMBERS) == [(1, 2), (7, 8)]


@pytest.mark.parametrize("cooperative", [True, False])
def test_special_launches_overlap_and_may_be_cooperative(launches, cooperative):
    launcher = _driver.Launcher(NUMBERS.size)
    made = (launcher.special("kernel", 264, 512, launcher.parameters(), 114688, cooperative),)
    for stream in (0x10, 0x20):
        launcher(stream, NUMBERS.pack_into, (stream, 2), made)
    attributes = {"CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": 1}
    if cooperative:
        attributes["CU_LAUNCH_ATTRIBUTE_COOPERATIVE"] = 1
    assert [found for _, found in launches] == [((264, 512, 114688, n, 0), attributes, ANY) for n in (0x10, 0x20)]
    assert parameters(launches[1][1][2], NUMBERS) == [(0x20, 2)]


def test_a_launch_that_the_driver_refuses_is_named(monkeypatch):
    refused = driver.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    monkeypatch.setattr(driver, "cuLaunchKernelEx", lambda *_: (refused,))
    launcher = _driver.Launcher(NUMBERS.size)
    made = (launcher.special("kernel", 264, 512, launcher.parameters(), 0, True),)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"):
        launcher(0, NUMBERS.pack_into, (1, 2), made)


@pytest.fixture
def device(monkeypatch):
    """A device whose stream and capture the test sets: `device.capture` is None or a capture's number."""

    class Device:
        capture = None

    monkeypatch.setattr(torch.cuda, "current_stream", type("Stream", (), {"synchronize": lambda self: None}))
    monkeypatch.setattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: Device.capture is not None, raising=False)
    monkeypatch.setattr(_workspace, "_capture", lambda stream: Device.capture)
    return Device


def test_words_belong_to_a_stream_or_to_a_stream_of_a_capture(device):
    words = _workspace.Words(50, "cpu")
    first, second = words.of(1), words.of(2)
    device.capture = 9
    inside = words.of(1)
    device.capture = 10
    another = words.of(1)
    assert len({t.data_ptr() for t in (first, second, inside, another)}) == 4
    assert words.of(1).data_ptr() == another.data_ptr()
    device.capture = None
    assert words.of(1).data_ptr() == first.data_ptr()
    assert all(len(t) >= 50 and t.data_ptr() % 128 == first.data_ptr() % 128 for t in (second, inside, another))
    assert bool((first == 0).all())


def test_where_the_reserve_is_used_up_a_capture_gets_its_own_and_a_stream_keeps_its(device, monkeypatch):
    monkeypatch.setattr(_workspace, "SHARES", 1)
    words = _workspace.Words(50, "cpu")
    words.of(1)
    assert words.of(2).data_ptr() == words.of(2).data_ptr()
    device.capture = 9
    kept = [words.of(1), words.of(1)]
    assert kept[0].data_ptr() != kept[1].data_ptr(), "each zeroes what it allocates, on every replay"
