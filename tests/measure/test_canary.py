"""Canaries behind outputs: writes past their ends."""

import ctypes

import pytest
import torch
from support.grids import over

from softbench.measure.check import canary, check
from softbench.model import Case

BEFORE = (7, 2)
OVERRUN = "wrote past the end of {}: 1 bytes changed, first {} bytes after it"


class Card:
    """Host memory in place of a GPU's: one region of canaries, from which outputs are cut."""

    def __init__(self, monkeypatch):
        self.history = BEFORE
        self.keep = []
        self.storage = torch.full((8192,), canary.CANARY, dtype=torch.uint8)
        self.start = self.storage.data_ptr()
        monkeypatch.setattr(canary, "_read", self.read)
        monkeypatch.setattr(canary, "_history", lambda device: self.history)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)

    def read(self, address, size):
        at = address - self.start
        return bytes(self.storage[at : at + size].tolist())

    def cut(self, at, size, dtype=torch.float16):
        self.storage[at : at + size] = 1
        memory = (ctypes.c_uint8 * size).from_address(self.start + at)
        self.keep.append(memory)
        return torch.frombuffer(memory, dtype=dtype)

    def overrun(self, *outputs, allocated, freed=0, region=8192):
        self.history = (BEFORE[0] + allocated, BEFORE[1] + freed)
        planted = canary.Canaries(((self.start, self.start + region),), "cuda", BEFORE)
        return planted.overrun(outputs if len(outputs) > 1 else outputs[0])


@pytest.fixture
def card(monkeypatch):
    return Card(monkeypatch)


@pytest.mark.parametrize("distance", [0, 300, 4000])
def test_a_byte_behind_the_only_allocation_is_an_overrun(card, distance):
    """Of two it is not: on a GPU, a temporary in float32 of 924 bytes left 50 behind the bfloat16 output that took its block."""
    y = card.cut(0, 200)
    assert card.overrun(y, allocated=1) == ""
    card.storage[200 + distance] = 0
    assert card.overrun(y, allocated=1) == OVERRUN.format("the output", distance)
    assert card.overrun(y, allocated=2) == ""
    assert card.overrun(y, allocated=1, freed=1) == "", "fresh memory of the driver is not judged"


def test_a_storage_outside_the_regions_is_not_judged(card):
    y, other = card.cut(0, 200), card.cut(4096, 200)
    card.storage[[200, 4296]] = 0
    assert card.overrun(other, allocated=1, region=4200) == ""
    assert card.overrun(y, other, allocated=2, region=4200) == ""  # a temporary may count for the output that was made before


def test_an_output_owns_the_rest_of_its_storage(card):
    padded = card.cut(0, 200)
    assert card.overrun(padded[:50], allocated=1) == ""
    card.storage[200] = 0
    assert card.overrun(padded[:50], allocated=1) == OVERRUN.format("the output", 0)


def test_two_outputs_in_one_storage_are_one_allocation(card):
    y, statistics = card.cut(0, 200), card.cut(512, 80, torch.float32)
    outputs = (y, statistics[:10], statistics[10:])
    card.storage[600] = 0
    assert card.overrun(*outputs, allocated=3) == ""  # the third is a temporary
    assert card.overrun(*outputs, allocated=2) == OVERRUN.format("output 2", 8)


def test_canaries_between_outputs(card):
    first, second = card.cut(0, 200), card.cut(512, 512)
    assert card.overrun(first, second, allocated=2) == ""
    card.storage[1030] = 0
    assert card.overrun(first, second, allocated=2) == OVERRUN.format("output 1", 6)
    card.storage[511] = 0
    assert card.overrun(first, second, allocated=2) == OVERRUN.format("output 0", 311)


@over("outputs", [None, (torch.empty(0), 3), torch.eye(2).to_sparse()])
def test_what_holds_no_memory_is_not_judged(card, outputs):
    assert canary.Canaries(((card.start, card.start + 8192),), "cuda", BEFORE).overrun(outputs) == ""


def test_freed_blocks_that_touch_are_one_region():
    assert canary._joined([(200, 300), (0, 100), (300, 350)]) == ((0, 100), (200, 350))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("shape", [(7, 33), (1000, 1001), (4096, 4097)])
def test_temporaries_are_not_taken_for_an_overrun(shape):
    def launch(*inputs):
        x, residual, weight, bias = (t.double() for t in inputs)
        total = x + residual
        mean = total.mean(1, keepdim=True)
        rstd = torch.rsqrt((total - mean).square().mean(1, keepdim=True) + 1e-5)
        y = (total - mean) * rstd * weight + bias
        dtype = inputs[0].dtype
        return y.to(dtype), total.to(dtype), rstd.view(-1).float(), mean.view(-1).float()

    for dtype in ("bfloat16", "float32"):
        assert check(Case("add_layernorm", shape, dtype, dtype), launch, "cuda").reason == ""
