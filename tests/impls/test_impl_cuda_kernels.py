"""Every rung of the CUDA C++ ladder from tensor to tensor on a CPU, where g++ stands in for NVRTC and the GPU."""

from functools import cache

import pytest
from support import depths, emulated_cuda
from support.cuda_family import FILE, NAMES, RUNGS, host, plans, program
from support.settled import drawn, every

from softbench.contract import Unsupported
from softbench.model import Case

torch = pytest.importorskip("torch")

from softbench.measure.check import check, compare  # noqa: E402

# Few enough that rows have many chunks, and teams are larger than EXCHANGE's DIRECT = 16 in the last.
SMALL = program.Gpu(processors=4, l2_bytes=2**20)
MANY = program.Gpu(processors=10, l2_bytes=2**20)
TYPES = {"float16": "Half", "bfloat16": "Bfloat", "float32": "float"}
# Sources that are tried with each pair of dtypes; all of them are with float32.
PAIRS = {
    ("float16", "float16"): ("warp", "cooperative", "online", "on_chip"),
    ("bfloat16", "float32"): ("fused", "cooperative", "on_chip"),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    @cache
    def of(source, dtype, out_dtype):
        types = {"INPUT": TYPES[dtype], "OUTPUT": TYPES[out_dtype]}
        return emulated_cuda.Kernels(FILE.parent / "kernels", source, types, tmp_path_factory.mktemp("kernels"))

    return of


class OneWords:
    def __init__(self, count, device):
        self.tensor = torch.zeros(count, dtype=torch.int64, device=device)

    def of(self, stream):
        return self.tensor


@pytest.fixture
def prepare(compiled, monkeypatch):
    """A rung's launch for CPU tensors, made by the family's own host side."""
    monkeypatch.setattr(host._driver, "Launcher", emulated_cuda.Launcher)
    monkeypatch.setattr(host, "Words", OneWords)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)

    def of(name, case, gpu=SMALL):
        rung = RUNGS[name]
        kernels = compiled(rung.source, case.dtype, case.out_dtype)
        functions = {kernel: (kernels, kernel) for kernel in rung.kernels}
        return host._launch(case, functions, host.programs(case, rung, gpu), torch.device("cpu"))

    return of


def case(shape, dtype="float32", out_dtype=None, layout="contiguous", distribution="normal"):
    return Case("softmax", shape, dtype, out_dtype or dtype, layout, distribution, timed=False)


def accepted(rows, gpu=SMALL):
    """Of rungs and cases, those that the rung does not refuse; what it refuses is held by tests of the plans."""
    for name, asked in rows:
        try:
            host.programs(asked, RUNGS[name], gpu)
        except Unsupported:
            continue
        yield name, asked


# Shapes of one chunk a row, of several, of more than one level of FAN parts, and rows shorter than a vector.
SHAPES = [
    (shape, "contiguous", "normal") for shape in ((37, 1), (37, 3), (133, 33), (5, 1001), (2, 257, 30), (3, 50257), (1, 300001))
]
LAYOUTS = [
    ((64, 1001), "offset-1", "normal"),
    ((64, 1001), "offset-1+padded-3", "normal"),
    ((9, 1024), "transposed", "normal"),
    ((9, 1024), "broadcast", "normal"),
    ((2, 40000), "padded-1", "normal"),
]
VALUES = [
    ((8, 1000), "contiguous", word)
    for word in (
        *("all_inf", "nan_last", "nan_with_inf", "prefix_inf_1", "causal_inf", "causal_min", "growing", "peaked"),
        "uniform_500_1000",  # results below 2^-126
    )
]
# A split row: one block sees the NaN, most see -inf alone.
SPLIT_VALUES = [
    ((2, 40000), "contiguous", word)
    for word in ("all_inf", "plus_inf", "nan_middle", "prefix_inf_1", "all_min", "shifted_1e4", "growing")
]
FAILS_NAIVE = ("plus_inf", "all_min", "shifted_1e4", "uniform_500_1000")


OTHER_DTYPES = [
    ((37, 7), "contiguous", "normal"),
    ((9, 2048), "offset-3", "normal"),
    ((9, 2041), "contiguous", "segments_inf"),
    ((2, 60001), "padded-3", "normal"),
    ((2, 60001), "contiguous", "padding_min"),
    ((2, 60001), "contiguous", "uniform_500_1000"),
]
# Rows that blocks hold in registers alone, one more vector, pieces of some blocks and of all, and all that there is room for.
HELD_BYTES = 4 * plans.HELD * plans.WORKERS * 16  # of SMALL
PIECES_BYTES = 4 * plans.MOST_PIECES * plans.PIECE_BYTES
ON_CHIP = [
    ((1, (HELD_BYTES + more) // 4), layout, "normal")
    for more in (-16, 4, 3 * plans.PIECE_BYTES - 4, PIECES_BYTES - 16)
    for layout in ("contiguous", "offset-1")
]
FLOAT32 = ("float32", "float32")
GRID = [
    *((name, FLOAT32, row) for name in NAMES for row in (*SHAPES, *LAYOUTS, *VALUES, *SPLIT_VALUES)),
    *(("on_chip", FLOAT32, row) for row in ON_CHIP),
    *((name, dtypes, row) for dtypes, names in PAIRS.items() for name in names for row in OTHER_DTYPES),
]


@every(("name", "asked"), accepted((name, case(shape, *dtypes, *more)) for name, dtypes, (shape, *more) in GRID))
def test_every_rung_is_right(prepare, name, asked):
    verdict = check(asked, prepare(name, asked), "cpu")
    assert verdict.ok is not (name == "naive" and asked.distribution in FAILS_NAIVE), verdict.reason


@every(
    ("name", "asked"),
    accepted(
        (name, case((count, columns), *dtypes))
        for name in NAMES
        for dtypes in (FLOAT32, *(pair for pair, names in PAIRS.items() if name in names))
        for columns, count in ((1000, 24), (40000, 6))
    ),
)
def test_what_lies_far_below_the_peak_is_not_lost(prepare, name, asked):
    """In the rows of another thread, group or block than the peak's too."""
    count, columns = asked.shape
    x = depths.rows(columns, asked.dtype, count)
    verdict = compare(asked, (x,), prepare(name, asked)(x))
    assert verdict.ok, verdict.reason


@every(
    ("shape", "kept_whole", "teams"),
    [
        ((1, 300001), True, 1),
        ((1, 700001), False, 1),
        ((3, 160000), True, 3),
        ((3, 200000), False, 3),
        ((5, 200000), True, 2),  # in rounds
        ((3, 600000), False, 1),  # in rounds
    ],
)
def test_teams_of_blocks(prepare, shape, kept_whole, teams):
    asked = case(shape, layout="offset-1")
    (plan, _) = host.programs(asked, RUNGS["cooperative"], MANY)
    assert (plan.kept == plan.chunk_vectors) is kept_whole
    assert plan.steps[0].blocks // plan.chunks == teams
    verdict = check(asked, prepare("cooperative", asked, MANY), "cpu")
    assert verdict.ok, verdict.reason


@every("name", NAMES)
def test_nothing_is_written_outside_the_output_and_the_workspace(prepare, monkeypatch, name):
    """Allocations come from the middle of larger ones whose ends must stay as they are."""
    guard, made = 4096, []
    real = torch.empty

    def guarded(count, dtype, device=None):
        size = count * dtype.itemsize
        whole = torch.full((2 * guard + size + -size % 16,), 0x5A, dtype=torch.uint8)
        made.append((whole, size))
        return whole[guard : guard + size].view(dtype)

    monkeypatch.setattr(torch, "empty", guarded)
    monkeypatch.setattr(torch, "empty_like", lambda x, dtype, memory_format: guarded(x.numel(), dtype).view(x.shape))
    for _, asked in accepted((name, case(shape)) for shape in ((7, 33), (5, 1001), (3, 50257), (1, 300001))):
        prepare(name, asked)(torch.randn(asked.shape))
    monkeypatch.setattr(torch, "empty", real)
    assert made
    for whole, size in made:
        assert bool((whole[:guard] == 0x5A).all() and (whole[guard + size :] == 0x5A).all())


def test_levels_of_a_reduction_follow_one_another(prepare):
    """More chunks than FAN, which takes 1025 x 256 vectors: over a million elements."""
    asked = case((1, 1025 * 1024))
    gpu = program.Gpu(processors=10**6, l2_bytes=2**20)
    for name in drawn(["multi_pass", "fused_wide"], __name__, "levels"):
        (_, plan) = host.programs(asked, RUNGS[name], gpu)
        assert [step.blocks for step in plan.steps if step.level][:2] == [2, 1]
        x = torch.randn(asked.shape) * 3
        x[0, -1] = 20.0  # the maximum is the last part's, and a tenth of the sum or more is not
        assert torch.allclose(prepare(name, asked, gpu)(x), torch.softmax(x, -1), rtol=1e-4, atol=0)


@every("name", NAMES)
def test_results_are_bitwise_repeatable(prepare, name):
    x = torch.randn(3, 1001 if name == "warp" else 50257)
    launch = prepare(name, case(x.shape))
    assert torch.equal(launch(x), launch(x))
