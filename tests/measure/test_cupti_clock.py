import random
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch
from support import builders as make
from support import offenders
from support.grids import over
from support.simulated import DEAD, Pool

from softbench.cases import operators
from softbench.measure import spin_kernels
from softbench.measure.contest import profiled
from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.contest.workers import Answer
from softbench.measure.cupti_clock import CALLS, GROUPS, Activity, DeviceClock, Unseen, spans
from softbench.measure.plans import Plan
from softbench.measure.worker import authoring as worker
from softbench.model import SEALED, Samples, Status

CASE = make.softmax_case(4, 64, "float32")
PLAN = Plan(20, 20, "cold")
GAP_NS = 1_000
MARK_NS = 2_000


def marks(*starts):
    return [Activity(spin_kernels.MARK, start, start + 10) for start in starts]


def test_a_span_is_last_end_minus_first_start():
    first = ("a", 120, 150), ("b", 170, 200)
    second = ("long", 510, 590), ("short", 520, 530), ("Memcpy DtoD", 531, 540)
    outside = ("flush", 320, 480), ("before", 10, 90)
    seen = [Activity(*entry) for entry in (*second, *outside, *marks(100, 300, 500, 700), *first)]
    assert spans(seen, 2) == [80, 80]
    early = Activity("early", 105, 200)  # on a stream that does not wait it starts while the mark still spins
    assert spans([*marks(100, 300), early], 1) == [95]


@over(
    "seen, why",
    [
        ([], "the profiler saw nothing on the GPU: CUPTI is missing, or another profiler uses it"),
        (marks(1, 30), "the profiler saw no kernel in call 1 of 1"),
        ([*marks(1), Activity("a", 5, 6)], "the profiler lost events: it saw 1 of 2 marks"),
        ([*marks(1, 30, 60), Activity("a", 15, 16)], "the profiler lost events: it saw 3 of 2 marks"),
    ],
)
def test_what_was_not_seen_is_no_sample(seen, why):
    with pytest.raises(Unseen, match=f"^{why}$"):
        spans(seen, 1)


def event(name, start, stop, kind):
    values = {"name": name, "start_ns": start, "duration_ns": stop - start, "device_type": kind}
    return SimpleNamespace(**{key: lambda value=value: value for key, value in values.items()})


class Gpu:
    def __init__(self, *, sees=True):
        self.host = self.free = 0
        self.seen = []
        self._sees, self._profiling = sees, False
        self.fault = None
        self.open = 0

    def enqueue(self, name, ns):
        start = max(self.host, self.free + GAP_NS)
        self.free = start + ns
        if self._profiling and self._sees:
            self.seen.append(Activity(name, start, self.free))

    def wait(self):
        self.host = max(self.host, self.free)

    def profile(self, **options):
        assert options == {"use_cpu": False, "use_device": "cuda", "use_kineto": True}
        return self

    def __enter__(self):
        if self.fault:
            raise self.fault
        self._profiling, self.open = True, self.open + 1

    def __exit__(self, *_):
        self._profiling, self.open = False, self.open - 1

    @property
    def kineto_results(self):
        kinds = torch.autograd.DeviceType
        found = [(Activity("cudaLaunchKernel", 0, 5), kinds.CPU), *((activity, kinds.CUDA) for activity in self.seen)]
        return SimpleNamespace(events=lambda: [event(*activity, kind) for activity, kind in found])


def clock_of(gpu):
    clock = DeviceClock("cpu")
    clock._profile, clock._synchronize, clock._now = gpu.profile, gpu.wait, lambda: gpu.host
    clock._mark = lambda ns: gpu.enqueue(spin_kernels.MARK, MARK_NS + ns)
    flush = {"bitwise_not": lambda *_, out: gpu.enqueue("flush", 40_000)}
    clock._torch = SimpleNamespace(zeros=torch.zeros, int32=torch.int32, **flush)
    return clock


def sampled(gpu, launch, plan=PLAN, *more):
    return clock_of(gpu).samples(operators.get("softmax"), CASE, launch, plan, 3, 1 << 10, *more)


def launch_of(gpu, *kernels_ns, host_ns=0, seen=None):
    def launch(x):
        if seen is not None:
            seen.append((x.data_ptr(), x[0, 0].item()))
        for ns in kernels_ns:
            gpu.host += host_ns
            gpu.enqueue("a", ns)
        return x.clone()

    return launch


@over("host_ns", [5_000, 40_000, 200_000])
def test_a_call_of_two_kernels_goes_at_the_pace_of_the_gpu(host_ns):
    """However long the host takes between them: the mark before holds the queue."""
    gpu = Gpu()
    found = sampled(gpu, launch_of(gpu, 10_000, 20_000, host_ns=host_ns))
    assert found == [[30_000 + GAP_NS] * CALLS] * GROUPS
    assert gpu.open == 0


def test_every_call_is_flushed_and_has_inputs_that_none_had():
    gpu, seen = Gpu(), []
    sampled(gpu, launch_of(gpu, 10_000, seen=seen))
    each = len(seen) // GROUPS
    for end in range(each, len(seen) + 1, each):
        assert len({pointer for pointer, _ in seen[end - CALLS : end]}) == CALLS
    assert len({value for _, value in seen}) == GROUPS * CALLS  # a placement of its own for each group
    names = [activity.name for activity in gpu.seen]
    opened = [at for at, name in enumerate(names) if name == spin_kernels.MARK][::2]
    assert {names[at - 1] for at in opened} == {"flush"}
    assert names.count("flush") == len(opened) == GROUPS * (CALLS + 1)


def test_large_inputs_come_round_as_planned():
    gpu, seen = Gpu(), []
    sampled(gpu, launch_of(gpu, 10_000, seen=seen), Plan(3, 2, "cold"))
    assert len({value for _, value in seen}) == 2 * GROUPS


def test_own_buffers_are_placed_for_each_group():
    gpu, placed = Gpu(), []

    def place(first):
        placed.append(first)
        gpu.enqueue("copies", 50_000)
        return [()]

    found = sampled(gpu, lambda: gpu.enqueue("a", 10_000), PLAN, place)
    assert found == [[10_000] * CALLS] * GROUPS
    assert placed == [3 + group * CALLS for group in range(GROUPS)]


@over("fault", [None, AssertionError("Legacy CUDA profiling"), RuntimeError("already enabled")])
def test_without_a_profiler_it_says_so(fault):
    gpu, raising = Gpu(sees=False), Gpu()
    gpu.fault = fault
    with pytest.raises(Unseen, match=str(fault or "saw nothing on the GPU")):
        sampled(gpu, launch_of(gpu, 10_000))
    with pytest.raises(ZeroDivisionError):
        sampled(raising, lambda x: 1 / 0)
    assert gpu.open == raising.open == 0


def test_profiling_has_its_own_processes():
    """A sealed entrant's is a referee."""
    names, before = ("fine", "unbuilt", "unseen", "dies", "sealed", "unstarted"), Samples("graph", 1, ((9,),))
    players = [Entrant(make.variant(name), "entrant", slot=at, samples=[before]) for at, name in enumerate(names)]
    sealed = players[4]
    sealed.tier, sealed.handed_over, sealed.digest = SEALED, "/tmp/file", "ab"
    asked, right = [], Answer(True, {"device": ((5, 6), (7, 8))})
    answers = {
        ("prepare", "unbuilt"): Answer(False, status=Status.COMPILE_ERROR, reason="ptxas"),
        ("device", "unseen"): Answer(True, {"unseen": "the profiler saw nothing"}),
        ("device", "dies"): DEAD,
        ("device", "fine"): right,
        ("device", "sealed"): right,
    }

    def ask(requests):
        keys = {entrant: (str(request["op"]), entrant.variant.implementation) for entrant, request in requests.items()}
        asked.extend(keys.values())
        assert all(request.get("is_checked", True) for request in requests.values())
        assert all((r["handed_over"], r["digest"]) == ("/tmp/file", "ab") for r in requests.values() if r["op"] == "take")
        return {entrant: answers.get(key, Answer(True)) for entrant, key in keys.items()}

    pool = Pool("unstarted")
    profiled.measure(CASE, players, Plan(9, 9, "cold"), 4, pool, ask, random.Random(1))
    assert [WorkerPool._key(twin)[2] for twin in pool.hired] == [*["device"] * 4, "referee-device", "device"]
    built = [*(("prepare", name) for name in names[:4]), ("take", "sealed")]
    assert asked == built + [("device", name) for name in ("fine", "unseen", "dies", "sealed")]
    assert all(player.is_open for player in players)
    added = [before, Samples("device", 1, ((5, 6), (7, 8)), "cold")]
    assert [player.samples for player in players] == [added, *[[before]] * 3, added, [before]]
    whys = ("", "ptxas", "the profiler saw nothing", DEAD.reason, "", "not started again")
    assert [player.notes for player in players] == [[f"no device clock: {why}"] * bool(why) for why in whys]


def test_a_worker_builds_without_a_check_and_samples_its_slot(tmp_path, monkeypatch):
    offenders.write(tmp_path, "wrong", "launch", "return x * 0")
    served = worker.AuthorHandler("cpu")
    request = offenders.prepare(CASE, tmp_path / "wrong.py", "wrong")
    assert served.handle(request)["ok"] is False
    assert served.handle(request | {"is_checked": True})["ok"] is True
    given = []
    sampling = SimpleNamespace(samples=lambda *arguments: given.append(arguments) or [[3], [4]])
    monkeypatch.setattr(served, "device_clock", sampling)
    asked = {"op": "device", "slot": 4, "plan": asdict(Plan(7, 2, "cold")), "seed": 5, "l2_bytes": 6}
    assert served.handle(asked) == {"ok": True, "device": [[3], [4]]}
    assert given == [(served.operator, CASE, served.slots[4].launch, Plan(7, 2, "cold"), 5, 6)]

    def unseen(*_):
        raise Unseen("no CUPTI")

    sampling.samples = unseen
    assert served.handle(asked) == {"ok": True, "unseen": "no CUPTI"}


def test_kernels_that_spin_read_the_timer_in_a_loop():
    """Two of its readings are in loops of their own, none hoisted."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from softbench.measure.spin_kernels import _kernels

    assert _kernels.softbench_mark.__name__ == spin_kernels.MARK
    for kernel, outputs in ((_kernels.softbench_spin, {"spun_ptr": "*i64"}), (_kernels.softbench_mark, {})):
        source = ASTSource(kernel, signature=outputs | {"ns": "i32"}, constexprs={})
        options = {"num_warps": 1, "enable_fp_fusion": True}
        built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        assert built.metadata.name == kernel.__name__
        lines = [line.strip() for line in built.asm["ptx"].splitlines()]
        timers = [at for at, line in enumerate(lines) if "%globaltimer" in line]
        loops = [at for at, line in enumerate(lines) if line.startswith("@%p") and " bra " in line]
        backward = [at for at in loops if f"{lines[at].split()[-1].rstrip(';')}:" in " ".join(lines[:at])]
        assert len(timers) == 4
        assert len(backward) == 2
        assert all(any(before < at for before in timers[2:]) for at in backward)
