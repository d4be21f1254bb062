"""The CUDA C++ family without a GPU: what is compiled, the cache, how rows are cut, and which cases are refused."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

from softbench.contract import Unsupported
from softbench.cubin import cuobjdump, resources
from softbench.model import Case
from softbench.worker.loading import load

FILE = Path(__file__).resolve().parents[1] / "impls" / "cuda" / "softmax.py"
FACTORY = load(FILE, "cuda_fused")
SIBLINGS = FACTORY.__module__.rpartition(".")[0]
fused = importlib.import_module(f"{SIBLINGS}._fused")
nvrtc = importlib.import_module(f"{SIBLINGS}._nvrtc")
H200_PROCESSORS = 132

DTYPES = [
    ("float16", "float16"),
    ("float16", "float32"),
    ("bfloat16", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiler():
    pytest.importorskip("cuda.core")
    pytest.importorskip("cuda.bindings.nvrtc")


@pytest.fixture
def builds(monkeypatch):
    """The sources that were compiled, in order; nothing is really compiled."""
    seen = []

    def compile_source(source, macros, arch):
        seen.append((source, dict(macros), arch))
        return f"cubin {len(seen)}".encode()

    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    monkeypatch.setattr(nvrtc, "_compiler_version", lambda: (13, 0))
    return seen


def case(dtype="float16", out_dtype=None, shape=(16, 256)):
    return Case("softmax", shape, dtype, out_dtype or dtype)


@pytest.mark.parametrize(("dtype", "out_dtype"), DTYPES)
def test_kernels_fit_their_launch_and_move_16_bytes_at_a_time(compiler, tmp_path, dtype, out_dtype):
    built = list(FACTORY.softbench_cubins(case(dtype, out_dtype)))
    assert [name for name, _ in built] == list(fused.KERNELS)
    assert len({cubin for _, cubin in built}) == 1
    found = {kernel.name: kernel for kernel in resources(built[0][1])}
    # 64 registers keep 1024 threads on a multiprocessor, and the blocks of 1024 threads launchable.
    assert {name: kernel.registers <= 64 for name, kernel in found.items()} == dict.fromkeys(fused.KERNELS, True)
    assert {name: kernel.stack_bytes for name, kernel in found.items()} == dict.fromkeys(fused.KERNELS, 0)
    path = tmp_path / "kernels.cubin"
    path.write_bytes(built[0][1])
    listing = subprocess.run([str(cuobjdump()), "-sass", str(path)], capture_output=True, text=True, check=True).stdout
    code = {part.split()[0]: part for part in listing.split("Function : ")[1:]}
    assert "sm_90a" in listing
    for name in ("block_statistics", "normalise"):
        assert code[name].count("LDG.E.128") == fused.MOST_VECTORS_A_THREAD
        assert "LDL" not in code[name]
        assert "STL" not in code[name]
    wider = fused.ITEM_BYTES[out_dtype] // fused.ITEM_BYTES[dtype]
    assert code["normalise"].count("STG.E.EF.128") == fused.MOST_VECTORS_A_THREAD * wider


def test_arguments_are_as_long_as_the_kernels_expect(compiler, tmp_path):
    # Kernel arguments begin at byte 528 of the constant bank on sm_90.
    path = tmp_path / "kernels.cubin"
    path.write_bytes(fused.cubin(case(), "sm_90a"))
    command = [str(cuobjdump()), "-res-usage", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert listing.count(f"CONSTANT[0]:{528 + fused.ARGUMENTS.size} ") == len(fused.KERNELS)


def test_second_build_comes_from_the_cache(builds, cache):
    first = fused.cubin(case(), "sm_90a")
    assert fused.cubin(case(shape=(3, 7)), "sm_90a") == first
    assert builds == [("softmax_fused.cu", {"INPUT": "Half", "OUTPUT": "Half"}, "sm_90a")]
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]


def test_other_dtypes_targets_compilers_and_sources_are_built_apart(builds, tmp_path, monkeypatch):
    fused.cubin(case(), "sm_90a")
    fused.cubin(case(out_dtype="float32"), "sm_90a")
    fused.cubin(case(), "sm_80")
    monkeypatch.setattr(nvrtc, "_compiler_version", lambda: (13, 5))
    fused.cubin(case(), "sm_90a")
    (tmp_path / "numeric.cuh").write_text("// changed\n")
    monkeypatch.setattr(nvrtc, "SOURCES", tmp_path)
    fused.cubin(case(), "sm_90a")
    assert len(builds) == 5


@pytest.mark.parametrize("damage", [b"", b"\0" * 16, b"\0" * 64], ids=["empty", "short", "other bytes"])
def test_damaged_cache_file_is_built_again(builds, cache, damage):
    fused.cubin(case(), "sm_90a")
    (path,) = cache.iterdir()
    path.write_bytes(damage)
    assert fused.cubin(case(), "sm_90a") == b"cubin 2"
    assert fused.cubin(case(), "sm_90a") == b"cubin 2"
    assert list(cache.iterdir()) == [path]


def test_unwritable_cache_only_costs_time(builds, cache):
    cache.write_text("a file where the folder should be")
    assert fused.cubin(case(), "sm_90a") == b"cubin 1"
    assert fused.cubin(case(), "sm_90a") == b"cubin 2"


def test_cache_folder_without_a_choice_is_in_the_home(monkeypatch):
    monkeypatch.delenv("SOFTBENCH_CACHE_DIR")
    assert nvrtc.cache_folder() == Path.home() / ".cache" / "softbench" / "cubin"


def test_source_that_does_not_compile_shows_the_log(compiler, tmp_path, monkeypatch):
    (tmp_path / "broken.cu").write_text('extern "C" __global__ void f() { nonsense; }\n')
    monkeypatch.setattr(nvrtc, "SOURCES", tmp_path)
    with pytest.raises(Exception, match="nonsense"):
        nvrtc.cubin("broken.cu", {}, "sm_90a")


# rows, columns, elements a vector, aligned -> chunks, chunk_vectors, group, lanes
PLANS = {
    "one element": ((1, 1, 8, True), (1, 1, 1, 1)),
    "one element anywhere": ((1, 1, 8, False), (1, 1, 1, 1)),
    "two vectors where unaligned": ((70000, 3, 8, False), (1, 2, 2, 1)),
    "a warp a row, four vectors a thread": ((32768, 1024, 8, True), (1, 128, 32, 1)),
    "few rows: a vector a thread": ((16, 1024, 8, True), (1, 128, 128, 1)),
    "the longest row of one chunk": ((16384, 8192, 8, True), (1, 1024, 256, 1)),
    "one vector more splits evenly": ((16384, 8191, 8, False), (2, 544, 256, 2)),
    "many chunks a row": ((4096, 65536, 8, True), (8, 1024, 256, 8)),
    "one row over all multiprocessors": ((1, 1048576, 8, True), (512, 256, 256, 512)),
    "100 million": ((1, 100_000_000, 4, True), (12208, 2048, 256, 1024)),
    "10 thousand million": ((1, 10**10, 4, True), (16277, 153600, 256, 1024)),
}


@pytest.mark.parametrize(("asked", "expected"), PLANS.values(), ids=PLANS.keys())
def test_plan(asked, expected):
    rows, columns, width, aligned = asked
    plan = fused.plan(rows, columns, width, aligned, H200_PROCESSORS)
    assert (plan.chunks, plan.chunk_vectors, plan.group, plan.lanes) == expected


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 31, 33, 255, 1000, 8191, 8193, 50257, 131072, 1048577, 10**9 + 1])
@pytest.mark.parametrize("rows", [1, 3, 133, 65537, 2**20 + 1])
def test_plan_covers_every_vector_and_row_once(rows, columns, width, aligned):
    if rows * columns > 2**47:  # 100 TB, for which there are not enough numbers
        with pytest.raises(Unsupported):
            fused.plan(rows, columns, width, aligned, H200_PROCESSORS)
        return
    plan = fused.plan(rows, columns, width, aligned, H200_PROCESSORS)
    vectors = -(-(columns + (0 if aligned else width - 1)) // width)
    assert plan.chunks * plan.chunk_vectors >= vectors
    assert (plan.chunks - 1) * plan.chunk_vectors < vectors, "a chunk without columns"
    assert plan.group & (plan.group - 1) == 0
    assert fused.THREADS % plan.group == 0
    assert plan.blocks * (fused.THREADS // plan.group) >= rows * plan.chunks
    assert plan.reduce_threads % plan.lanes == 0
    assert plan.reduce_blocks * (plan.reduce_threads // plan.lanes) >= rows
    assert plan.chunks <= 16 * fused.REDUCE_THREADS
    assert plan.blocks < 2**31
    assert max(plan.reduce_threads, fused.THREADS) <= 1024


def test_more_chunks_than_can_be_numbered_are_refused():
    with pytest.raises(Unsupported, match="2147483648 rows in 1 chunks"):
        fused.plan(2**31, 1, 8, True, H200_PROCESSORS)


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "message"),
    [
        ("float64", "float64", "float64 input: the kernels read float16, bfloat16, float32"),
        ("float32", "float16", "float16 output of float32: the kernels write the input's dtype or float32"),
        ("float16", "bfloat16", "bfloat16 output of float16"),
    ],
)
def test_other_dtypes_are_refused_before_anything_is_compiled(builds, dtype, out_dtype, message):
    with pytest.raises(Unsupported, match=message):
        list(FACTORY.softbench_cubins(case(dtype, out_dtype)))
    assert builds == []


def test_rows_are_taken_as_they_lie_and_copied_only_where_columns_are_apart():
    torch = pytest.importorskip("torch")
    base = torch.arange(240.0)
    whole = base.view(12, 20)
    padded, offset = whole[:, :17], base[3:].as_strided((2, 5), (7, 1))
    assert fused.as_rows(whole, 12, 20) == (whole, 20)
    assert fused.as_rows(base.view(3, 4, 20), 12, 20)[1] == 20
    for view, stride in [(padded, 20), (offset, 7), (whole[:1].expand(12, 20), 0)]:
        matrix, found = fused.as_rows(view, *view.shape)
        assert (matrix.data_ptr(), found) == (view.data_ptr(), stride)
    # One row: its stride is never multiplied, so it must not make the row count as unaligned.
    assert fused.as_rows(whole[:1, :17], 1, 17)[1] == 0
    for view in (whole.T, whole[:, ::2]):
        matrix, found = fused.as_rows(view, *view.shape)
        assert matrix.is_contiguous()
        assert found == view.shape[1]
        assert torch.equal(matrix, view)
