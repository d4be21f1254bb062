"""Every bundled cheat is caught or gains nothing."""

import ctypes

import pytest
import torch
from contests import run
from support.builders import softmax_case
from support.paths import SUPPORT

from softbench.cases import registry
from softbench.doctor import examples
from softbench.doctor.examples import EXAMPLES, FORGED
from softbench.measure import device
from softbench.measure.check import check
from softbench.measure.worker import loading
from softbench.model import OPEN, Status

pytestmark = pytest.mark.gpu

HONEST = registry.find([SUPPORT / "honest"])
CASE = softmax_case(4096, 4096)


@pytest.fixture(scope="module")
def records(some_gpu):
    return examples.outcomes(device.gpu())


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.is_of_cpu], ids=lambda e: e.name)
def test_a_cheat_is_caught_with_its_word(records, example):
    record = records[example.name]
    print(example.name, record.status.value, record.tier, record.open_because, record.reason)
    assert examples.missed(example, record, list(records.values())) == ""
    assert example.misleads or example.word.startswith(FORGED) or not record.samples


def test_the_honest_pass_beside_the_cheats(records):
    honest = [record for name, record in records.items() if name.startswith(("twin_", "writes_all"))]
    assert {(r.status, r.reason) for r in honest} == {(Status.PASSED, "")}
    assert all(r.clock("graph") for r in honest)


@pytest.mark.parametrize("case", [CASE, softmax_case(1000, 1001, "float32")], ids=lambda c: c.id)
def test_an_honest_implementation_is_not_accused(pool, case):
    found = run(pool, case, HONEST)
    assert {r.variant.id: (r.status.value, r.reason) for r in found} == {v.id: ("PASSED", "") for v in HONEST}


@pytest.mark.parametrize(
    ("waits", "joins", "words"),
    [(True, True, ""), (False, True, "work on another stream"), (True, False, "work on another stream")],
)
def test_another_stream_must_wait_and_be_waited_for(waits, joins, words):
    side = torch.cuda.Stream()

    def launch(x):
        current = torch.cuda.current_stream()
        if waits:
            side.wait_stream(current)
        with torch.cuda.stream(side):
            y = torch.softmax(x, dim=-1)
        if joins:
            current.wait_stream(side)
        return y

    reason = check(CASE, launch, "cuda").reason
    assert reason.startswith(words)
    assert bool(reason) == bool(words)


def test_a_forged_hand_over_is_refused_and_leads_nothing(records):
    found = {e.name: records[e.name] for e in EXAMPLES if e.word.startswith(FORGED)}
    assert {name: (r.status, r.tier) for name, r in found.items()} == dict.fromkeys(found, (Status.PASSED, OPEN))


def test_the_l2_is_really_set_aside(gpu):
    cuda, limit, window = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), (ctypes.c_uint64 * 8)()
    x = torch.zeros(4096, 4096, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        loading.load(examples.CHEATS / "l2_set_aside.py", "l2_set_aside")(CASE)(x)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        assert cuda.cuStreamGetAttribute(stream, 1, ctypes.byref(window)) == 0
    cuda.cuCtxGetLimit(ctypes.byref(limit), 6)
    cuda.cuCtxSetLimit(6, ctypes.c_size_t(0))
    assert (window[0], limit.value > 0) == (x.data_ptr(), True)
