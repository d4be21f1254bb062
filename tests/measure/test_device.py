import ctypes
import sys
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.cards import H200, Nvml
from support.grids import over

from softbench import packages
from softbench.measure import device
from softbench.model import Telemetry

A100 = replace(H200, name="NVIDIA A100-SXM4-80GB", sm=80)


@pytest.fixture
def installed(monkeypatch):
    found = {"triton": "3.6.0", "whole": "3", "torch": "2.13.0a0+gitabc", "nvidia-cutlass-dsl": "4.8.0.dev1"}
    monkeypatch.setattr(packages, "installed", lambda name, path: SimpleNamespace(version=found[name]) if name in found else None)


MISSING = [
    ("cuda >= sm_90", H200, ""),
    ("cuda", A100, ""),
    ("cuda>=sm_90", A100, f"needs sm_90, and {A100.name} is sm_80"),
    ("cuda", None, "needs a CUDA GPU, and this machine has none"),
    ("triton", None, ""),
    ("triton>=3.10", None, "needs triton >= 3.10, and 3.6.0 is installed"),
    ("whole>=3.0", None, ""),
    ("whole>=3.0.1", None, "needs whole >= 3.0.1, and 3 is installed"),
    ("torch>=2.13", None, ""),
    ("nvidia-cutlass-dsl>=4.8", None, ""),
    ("quack-kernels>=0.6", H200, "quack-kernels is not installed: pip install 'softbench[quack]'"),
]


@over("requirement, card, why", MISSING)
@pytest.mark.usefixtures("installed")
def test_what_is_missing(requirement, card, why):
    assert device.missing(requirement, card) == why


@over("requirement", ["", "triton>=", "triton>=3,<4", "triton==3.6", "cuda>=hopper", "a b"])
def test_a_requirement_that_cannot_be_read_is_not_met(requirement):
    assert f"{requirement!r} cannot be read" in device.missing(requirement, H200)


@over(
    "expected, name, fits",
    [
        ("h200", "NVIDIA H200 NVL", True),
        ("H200", "NVIDIA GH200 480GB", False),
        ("GH200", "NVIDIA GH200 480GB", True),
        ("H800 PCIe", "NVIDIA H800", False),
        ("A100", A100.name, True),
    ],
)
def test_an_expected_gpu_is_a_whole_word_of_the_name(expected, name, fits):
    why = device.expectation(expected, replace(H200, name=name))
    assert why == ("" if fits else f"an {expected} is expected, but this machine has {name!r}")


def test_the_peak_of_an_h200_is_its_published_bandwidth():
    assert H200.peak_gb_s == pytest.approx(4814, abs=1)
    described = H200.describe()
    assert described["kind"] == "cuda"
    assert described["peak_gb_s"] == round(H200.peak_gb_s, 1)


def test_without_the_driver_or_a_device_there_is_no_gpu(monkeypatch):
    def absent(name):
        raise OSError(name)

    empty = SimpleNamespace(cuInit=lambda flags: 100)  # CUDA_ERROR_NO_DEVICE, as with an empty CUDA_VISIBLE_DEVICES
    for load in (absent, lambda name: empty):
        monkeypatch.setattr(ctypes, "CDLL", load)
        assert device.gpus.__wrapped__() == ()


ATTRIBUTES = {16: 132, 38: 62_914_560, 13: 1_980_000, 36: 3_201_000, 37: 6016, 75: 9, 76: 0}


def put(place, value):
    if isinstance(value, list):
        place[:] = bytes(value)
    else:
        getattr(place, "_obj", place).value = value
    return 0


TWO_H200 = SimpleNamespace(
    cuInit=lambda flags: 0,
    cuDeviceGetCount=lambda count: put(count, 2),
    cuDeviceGet=put,
    cuDeviceGetName=lambda name, size, device: put(name, b"NVIDIA H200"),
    cuDeviceGetPCIBusId=lambda pci, size, device: put(pci, b"0000:0%d:00.0" % (device.value + 1)),
    cuDeviceTotalMem_v2=lambda memory, device: put(memory, 150_000_000_000),
    cuDeviceGetAttribute=lambda value, attribute, device: put(value, ATTRIBUTES[attribute]),
    cuDeviceGetUuid_v2=lambda place, device: put(place, [device.value] * 16),
)


UUIDS = [str(uuid.UUID(bytes=bytes([number] * 16))) for number in range(2)]


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: TWO_H200)
    monkeypatch.setattr(device, "_driver", lambda: "580.1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    device.gpus.cache_clear()
    yield monkeypatch
    device.gpus.cache_clear()


def test_the_first_of_all_visible_gpus_is_measured(two):
    first, second = device.gpus()
    assert first == replace(H200, uuid=f"GPU-{UUIDS[0]}")
    assert second == replace(H200, pci="0000:02:00.0", uuid=f"GPU-{UUIDS[1]}")
    assert device.gpu() == first
    assert first.model == second.model
    assert first.id == f"GPU-{UUIDS[0]}"
    assert replace(first, uuid="").id == "0000:01:00.0"
    two.setenv("CUDA_VISIBLE_DEVICES", f"MIG-{UUIDS[0]}")
    device.gpus.cache_clear()
    assert device.gpus()[0].id == f"MIG-{UUIDS[0]}"


@over(
    "given, names",
    [
        (None, ("0", "1")),
        ("3,1", ("3", "1")),
        (" GPU-8932f937 , 2 ", ("GPU-8932f937", "2")),
        ("2,5,-1,3", ("2", "5")),  # the driver ends the list at the first that there is not, and counts two
        ("MIG-a,MIG-b,MIG-c", ("MIG-a", "MIG-b", "MIG-c")),
    ],
)
def test_a_gpu_is_made_the_only_one_by_the_name_it_was_given(two, given, names):
    if given is not None:
        two.setenv("CUDA_VISIBLE_DEVICES", given)
    assert device.visible() == names


def test_a_machine_without_a_gpu_is_its_processor(monkeypatch, no_gpu):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,0")
    assert device.visible() == ()
    found = device.describe()
    assert found["kind"] == "cpu"
    assert found["cores"] >= 1
    assert found["memory_bytes"] == device.host_memory() > 1 << 28


def test_telemetry_without_nvml_is_empty():
    assert device.Monitor(None).read() == device.Monitor(H200).read() == Telemetry()


# As nvidia-ml-py names them: idle, application clocks, power cap, hw slowdown, sync boost, sw and hw thermal, power brake, display.
BITS = [
    (0, "", False),
    (0x1 | 0x2 | 0x10 | 0x100, "", False),
    (0x4, "power_cap", False),
    (0x8, "hw_slowdown", True),
    (0x20 | 0x1, "sw_thermal", True),
    (0x4 | 0x40, "power_cap+hw_thermal", True),
    (0x80, "power_brake", True),
]


@over("bits, words, is_throttled", BITS)
@over("power_mw", [512_700, None])
def test_telemetry_names_what_holds_the_clocks(monkeypatch, bits, words, is_throttled, power_mw):
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(bits, power_mw))
    reading = device.Monitor(H200).read()
    assert reading == Telemetry(1980, 3201, 512 if power_mw else None, 45, words)
    assert reading.is_throttled is is_throttled


def test_another_gpu_is_refused_unless_any_will_do(collected, refusal, monkeypatch):
    monkeypatch.setattr(device, "gpu", lambda: H200)
    asks = ("--softbench-profile=cpu", "--softbench-expect-gpu")
    for given in (["H200"], ["H100", "--softbench-any-gpu"]):
        assert "shapes.yaml::softmax-float32-16x256::torch_eager" in collected(*asks, *given)
    said = "an H100 is expected, but this machine has 'NVIDIA H200'; add --softbench-any-gpu to run "
    assert said in refusal("--collect-only", "-q", *asks, "H100")
