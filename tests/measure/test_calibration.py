"""Clocks against kernels of known duration."""

from types import SimpleNamespace

from support.calibrations import BLIND, CALL, FAST, KNOWN, RIGHT, WHY
from support.grids import over
from support.simulated import Pool

from softbench.measure import cupti_clock
from softbench.measure.clocks import CALLS, WARM_CALLS
from softbench.measure.contest import calibrating as parent
from softbench.measure.contest.workers import Answer
from softbench.measure.worker import clock_readings
from softbench.model import Calibration, Status, calibration


@over(
    "read, why",
    [
        ((20_000, 100_000, 500_000), ""),
        ((21_200, 101_200, 501_200), ""),  # with a launch gap each
        ((60_000, 140_000, 540_000), ""),  # the host's way to the GPU and back
        ((20_000, 101_299, 500_000), ""),  # 1 % of 80 us and 0.5 us
        ((20_000, 101_301, 500_000), "reads 81.30 us where 80.00 us passed by the GPU's timer"),
        ((20_000, 98_699, 500_000), "reads 78.70 us where 80.00 us passed by the GPU's timer"),
        ((20_000, 100_000, 505_301), "reads 485.30 us where 480.00 us passed by the GPU's timer"),
        ((19_301, 99_300, 499_300), ""),
        ((19_299, 99_300, 499_300), "reads 19.30 us of a kernel that spins for 20.00"),
        ((0, 80_000, 480_000), "reads 0.00 us of a kernel that spins for 20.00"),
    ],
)
def test_how_far_a_clock_may_be_off(read, why):
    found = Calibration("graph", KNOWN, read)
    assert calibration.misreading(found) == why
    assert calibration.refusal([CALL, found], "graph") == why
    assert calibration.refusal([CALL, found], "call") == ""


def test_an_untried_clock_is_used_and_an_unread_one_is_not():
    untried = Calibration("graph", fault="no triton")
    refusals = {clock: calibration.refusal([untried, BLIND], clock) for clock in ("graph", "call", "device")}
    assert refusals == {"graph": "", "call": "", "device": BLIND.fault}


def test_a_line_says_rate_and_constant():
    assert [calibration.describe(found) for found in (RIGHT, CALL, FAST, BLIND)] == [
        "graph: right within 0.00%, by kernels of 20, 100, 500 us; 1.20 us in addition to each",
        "call: right within 0.15%, by kernels of 20, 100, 500 us; 25.00 us in addition to each",
        f"graph: OFF, and not used: {WHY}",
        "device: not checked: the profiler saw nothing on the GPU",
    ]


class Gpu:
    def __init__(self, graph=1.0, call=1.0, device=1.0):
        self.rates = {"graph": graph, "call": call, "device": device}
        self.now = 0.0
        self.tried = []

    def spin(self, ns):
        self.tried.append(ns)

        def launch(*inputs):
            self.now += ns + 32

        launch.spun_ns = lambda: ns + 32
        return launch

    def taken(self, clock, launch, count, constant):
        before = self.now
        for _ in range(count):
            launch()
        return round((self.now - before) * self.rates[clock] + count * constant)

    def place(self, operator, case, launch, plan, seed, old):
        assert operator.make_inputs(case, "cpu", seed)[0].shape == case.shape
        return SimpleNamespace(turn=lambda: self.taken("graph", launch, plan.launches, 1200) + 1500)

    def wait(self):
        self.now += 8000

    def call_samples(self, launch, inputs):
        """A host whose next call is the slower the longer it has waited in the one before."""
        groups = []
        for _ in range(8):
            taken, waited = [], 0
            for _ in range(WARM_CALLS + CALLS):
                before = self.now
                launch()
                taken.append(round((self.now - before) * self.rates["call"]) + 15_000 + waited // 100)
                waited = round(self.now - before)
            groups.append(taken[WARM_CALLS:])
        return groups


class Profiled(Gpu):
    def samples(self, operator, case, launch, plan, seed, l2_bytes):
        assert l2_bytes == 1 << 20
        return [[self.taken("device", launch, 1, 900)]] * 5


def calibrated(gpu):
    return clock_readings.calibrate(gpu, gpu if isinstance(gpu, Profiled) else None, 1 << 20, gpu.spin, gpu.wait)


def test_each_clock_is_read_as_implementations_are():
    gpu = Profiled()
    graph, call, device = calibrated(gpu)
    known = (20_032, 100_032, 500_032)
    assert graph == Calibration("graph", known, (21_382, 101_382, 501_382))  # 1.2 us a launch, 1.5 a replay of ten
    assert call.known_ns == known
    assert call.read_ns == tuple(spun + 23_280 for spun in known)
    assert device == Calibration("device", known, (20_932, 100_932, 500_932))
    assert not any(map(calibration.misreading, (graph, call, device)))
    assert gpu.tried == list(clock_readings.DURATIONS_NS) * 3


@over("clock", ["graph", "call", "device"])
def test_two_percent_off_are_found_in_three_attempts(clock):
    gpu = Profiled(**{clock: 1.02})
    found = {c.clock: calibration.misreading(c) for c in calibrated(gpu)}
    assert [name for name, why in found.items() if why] == [clock]
    assert len(gpu.tried) == 3 * (2 + clock_readings.ATTEMPTS)


def test_a_moment_of_another_process_is_forgiven():
    gpu = Gpu()
    taken, calls = gpu.taken, iter(range(1000))
    gpu.taken = lambda *given: taken(*given) + (90_000 if 9 <= next(calls) < 18 else 0)
    assert not any(map(calibration.misreading, calibrated(gpu)))
    assert gpu.tried == list(clock_readings.DURATIONS_NS) * 3


def test_without_a_profiler_the_other_clocks_are_checked(monkeypatch):
    def blind(*given):
        raise cupti_clock.Unseen("no CUPTI")

    monkeypatch.setattr(Profiled, "samples", blind)
    graph, call, device = calibrated(Profiled())
    assert (graph.fault, call.fault, device) == ("", "", Calibration("device", fault="no CUPTI"))


def test_a_process_of_its_own_checks_the_clocks_and_goes(monkeypatch):
    asked = []
    answer = Answer(True, {"calibrations": (RIGHT,)})
    monkeypatch.setattr(parent, "ask", lambda worker, request, timeout_s: asked.append(request) or answer)
    pool = Pool()
    assert parent.calibrate(pool, 5, device=True) == (RIGHT,)
    assert [(r["op"], r["device"], r["l2_bytes"]) for r in asked] == [("calibrate", True, 5)]
    assert pool.ended == 1


@over("device", [False, True])
def test_what_cannot_be_tried_says_why(monkeypatch, device):
    clocks = ("graph", "call", "device")[: 2 + device]
    failed = Answer(False, status=Status.RUNTIME_ERROR, reason="No module named 'triton'")
    monkeypatch.setattr(parent, "ask", lambda *_: failed)
    for pool, why in ((Pool(), failed.reason), (Pool(parent._SPINNING.implementation, "no GPU left"), "no GPU left")):
        found = parent.calibrate(pool, 5, device=device)
        assert found == tuple(Calibration(clock, fault=why) for clock in clocks)
