"""The CUDA C++ family without a GPU: what is compiled, the cache, which cases are refused, how rows are taken."""

import fnmatch
import itertools
import re
import subprocess
from pathlib import Path

import pytest
from support.cuda_family import FILE, NAMES, RUNGS, host, nvrtc, plans, program
from support.grids import over
from support.paths import ROOT
from support.sass import kernels, sass
from support.settled import drawn

from softbench.cases import matrix, registry
from softbench.contract import Unsupported
from softbench.measure.cubin import cuobjdump, resources
from softbench.measure.worker.loading import load
from softbench.model import Case

FIRST = {rung.source: name for name, rung in reversed(RUNGS.items())}
# A warp with eight vectors a lane and three blocks of 256 threads to a multiprocessor; a block of 512 alone on its own.
MOST_REGISTERS = {"warp_rows_8": 80, "warp_rows_9": 80, "rows_on_chip": 128}

DTYPES = [("float16", "float16"), ("float16", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("float32", "float32")]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    return tmp_path_factory.mktemp("cubins")


@pytest.fixture
def compiled(cache, compiled_once, monkeypatch):
    """NVRTC is here; what one test compiles, the others of this file find in the cache."""
    pytest.importorskip("cuda.core")
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(compiled_once))


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


def cubin(rung, *dtypes, arch="sm_90a"):
    return host.cubin(case(*dtypes), RUNGS[rung], arch)


def built(name, *arguments):
    return list(load(FILE, f"cuda_{name}").softbench_cubins(case(*arguments)))


def listing(cubin, path, option):
    path.write_bytes(cubin)
    command = [str(cuobjdump()), option, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_kernels_fit_their_launch_and_move_16_bytes_at_a_time(compiled):
    asked = drawn(itertools.product(sorted(FIRST), DTYPES), __name__, "kernels fit")
    cubins = [cubin(FIRST[source], *dtypes) for source, dtypes in asked]
    for (source, dtypes), built, code in zip(asked, cubins, kernels(*cubins), strict=True):
        where = f"{source} {dtypes}"
        taken = {kernel.name: kernel for kernel in resources(built)}
        assert set(taken) == set(code) == {k for rung in RUNGS.values() if rung.source == source for k in rung.kernels}
        # 64 registers keep 1024 threads on a multiprocessor.
        assert {n: k.registers for n, k in taken.items() if k.registers > MOST_REGISTERS.get(n, 64)} == {}, where
        assert {n: k.stack_bytes for n, k in taken.items() if k.stack_bytes} == {}, where
        for name, text in code.items():
            # A value that does not fit the registers goes to local memory.
            assert re.findall(r"LDL|STL", text) == [], (where, name)
            loads = len(re.findall(r"LDG\.E\.128(?!\.STRONG)|LDGSTS\S*\.128", text))
            assert loads == expected_loads(name), (where, name)
            writes = name in WRITING or name.startswith("warp_rows")
            assert (("STG.E.128" if name in PLAIN else "STG.E.EF.128") in text) == writes, (where, name)


def test_cubins_are_hoppers(compiled, tmp_path):
    assert "sm_90a" in listing(cubin("naive"), tmp_path / "kernels.cubin", "-sass")


WRITING = {
    *("divide", "normalise", "merge_and_normalise", "online_rows"),
    *("online_normalise", "rows_in_shared", "split_rows", "rows_on_chip"),
}
PLAIN = {"rows_on_chip"}  # whose stores do not stream


def expected_loads(name):
    """Instructions that read 16 bytes of the row: UNROLL of them wherever a row is read."""
    if name.startswith("warp_rows"):
        return int(name.rpartition("_")[2])
    special = {
        "online_rows": 2 * program.UNROLL,
        "rows_in_shared": 1,
        "split_rows": 2 * program.UNROLL + 1,
        "rows_on_chip": plans.HELD,
    }
    reducing = ("reduce_maxima", "reduce_sums", "global_reduce", "merge_statistics")
    return special.get(name, 0 if name in reducing else program.UNROLL)


@over(("name", "blocks"), [("cooperative", 2), ("on_chip", 1)])
def test_cooperative_blocks_fit_a_multiprocessor_of_hopper(compiled, name, blocks):
    # 228 KB of shared memory, of which 1 KB a block is the system's own; 65536 registers.
    for kernel in resources(cubin(name)):
        static = kernel.shared_bytes % 1024  # cuobjdump counts the system's KB as well
        assert blocks * (RUNGS[name].shared_bytes + static + 1024) <= 228 * 1024
        assert blocks * plans.SPLIT_THREADS * kernel.registers <= 65536


def test_warps_exchange_nothing_through_shared_memory(compiled):
    (text,) = sass(cubin("warp"))
    assert "SHFL.BFLY" in text
    assert re.findall(r"BAR\.SYNC|LDS|STS", text) == []


@over("rung", FIRST.values())
def test_parameters_are_as_long_as_the_kernels_expect(compiled, tmp_path, rung):
    # Kernel parameters begin at byte 528 of the constant bank on sm_90.
    text = listing(cubin(rung), tmp_path / "kernels.cubin", "-res-usage")
    sizes = dict(re.findall(r"Function (\S+):\s.*?CONSTANT\[0\]:(\d+) ", text))
    for name, size in sizes.items():
        level = program.LEVEL.size if name in ("reduce_maxima", "reduce_sums", "merge_statistics") else 0
        assert int(size) == 528 + program.ARGUMENTS.size + level, name


@pytest.mark.parametrize(
    ("name", "shape", "kernels"),
    [
        ("naive", (16, 256), "exp_sums divide"),
        ("multi_pass", (16, 256), "chunk_maxima chunk_sums normalise"),
        ("multi_pass", (1, 10**6), "all"),
        ("fused", (16, 256), "all"),
        ("fused_wide", (1, 10**6), "all"),
        ("fused_two", (16, 256), "all"),
        ("online", (16, 256), "online_rows"),
        ("online", (1, 10**6), "online_statistics online_normalise"),
        ("warp", (16, 256), "warp_rows_1 warp_rows_2"),
        ("cooperative", (16, 256), "rows_in_shared"),
        ("cooperative", (16, 10**6), "split_rows"),
        ("cooperative", (0, 256), ""),
        ("on_chip", (1, 10**6), "rows_on_chip"),
    ],
)
def test_cubins_are_those_that_the_case_takes(builds, name, shape, kernels):
    found = built(name, "float16", "float16", shape)
    assert [kernel for kernel, _ in found] == (list(RUNGS[name].kernels) if kernels == "all" else kernels.split())
    assert len(builds) == 1


def test_second_build_comes_from_the_cache(builds, cache):
    first = built("fused")[0]
    assert built("fused", "float16", "float16", (3, 7))[0] == first
    assert built("fused_two")[0] == first, "rungs of one source share a cubin"
    assert builds == [("fused.cu", {"INPUT": "Half", "OUTPUT": "Half"}, "sm_90a")]
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]


def test_other_dtypes_targets_compilers_and_sources_are_built_apart(builds, tmp_path, monkeypatch):
    cubin("fused")
    cubin("fused", "float16", "float32")
    cubin("fused", arch="sm_80")
    cubin("online")
    monkeypatch.setattr(nvrtc, "_compiler_version", lambda: (13, 5))
    cubin("fused")
    (tmp_path / "numeric.cuh").write_text("// changed\n")
    monkeypatch.setattr(nvrtc, "SOURCES", tmp_path)
    cubin("fused")
    assert len(builds) == 6


def test_damaged_cache_file_is_built_again(builds, cache):
    cubin("fused")
    (path,) = cache.iterdir()
    for number, damage in enumerate((b"", b"\0" * 16, b"\0" * 64), 2):
        path.write_bytes(damage)
        assert cubin("fused") == cubin("fused") == f"cubin {number}".encode()
        assert list(cache.iterdir()) == [path]


def test_unwritable_cache_only_costs_time(builds, cache):
    cache.write_text("a file where the folder should be")
    assert cubin("fused") == b"cubin 1"
    assert cubin("fused") == b"cubin 2"


def test_cache_folder_without_a_choice_is_in_the_home(monkeypatch):
    monkeypatch.delenv("SOFTBENCH_CACHE_DIR")
    assert nvrtc.cache_folder() == Path.home() / ".cache" / "softbench" / "cubin"


def test_source_that_does_not_compile_shows_the_log(compiled, tmp_path, monkeypatch):
    (tmp_path / "broken.cu").write_text('extern "C" __global__ void f() { nonsense; }\n')
    monkeypatch.setattr(nvrtc, "SOURCES", tmp_path)
    with pytest.raises(Exception, match="nonsense"):
        nvrtc.cubin("broken.cu", {}, "sm_90a")


@over(
    ("dtype", "out_dtype", "message"),
    [
        ("float64", "float64", "float64 input: the kernels read float16, bfloat16, float32"),
        ("float32", "float16", "float16 output of float32: the kernels write the input's dtype or float32"),
        ("float16", "bfloat16", "bfloat16 output of float16"),
    ],
)
@over("name", NAMES)
def test_other_dtypes_are_refused_before_anything_is_compiled(builds, name, dtype, out_dtype, message):
    with pytest.raises(Unsupported, match=message):
        built(name, dtype, out_dtype)
    assert builds == []


def test_naive_declares_what_overflows_and_nothing_else():
    declared = {v.implementation: v for v in registry.find([FILE.parent]) if v.operator == "softmax"}
    assert list(declared) == [f"cuda_{name}" for name in NAMES], "the ladder stands in rising order"
    assert [name for name, variant in declared.items() if variant.known_failures] == ["cuda_naive"]
    patterns = [failure.pattern for failure in declared["cuda_naive"].known_failures]
    hard = matrix.load(ROOT / "shapes.yaml").profile("hard")
    plain = [c for c in hard if not c.distribution.startswith("drawn_")]
    hit = {c.distribution for c in plain if any(fnmatch.fnmatchcase(c.id, pattern) for pattern in patterns)}
    shifts = {"shifted_1e2", "shifted_-1e2", "shifted_1e4", "shifted_-1e4", "shifted_1e5"}
    assert hit == shifts | {"dtype_max", "plus_inf", "all_min", "uniform_500_1000"}


def test_rows_are_taken_as_they_lie_and_copied_only_where_columns_are_apart():
    torch = pytest.importorskip("torch")
    base = torch.arange(240.0)
    whole = base.view(12, 20)
    padded, offset = whole[:, :17], base[3:].as_strided((2, 5), (7, 1))
    assert host.as_rows(whole, 12, 20) == (whole, 20)
    assert host.as_rows(base.view(3, 4, 20), 12, 20)[1] == 20
    for view, stride in [(padded, 20), (offset, 7), (whole[:1].expand(12, 20), 0)]:
        matrix_, found = host.as_rows(view, *view.shape)
        assert (matrix_.data_ptr(), found) == (view.data_ptr(), stride)
    # One row: its stride is never multiplied, so it must not make the row count as unaligned.
    assert host.as_rows(whole[:1, :17], 1, 17)[1] == 0
    for view in (whole.T, whole[:, ::2]):
        matrix_, found = host.as_rows(view, *view.shape)
        assert matrix_.is_contiguous()
        assert found == view.shape[1]
        assert torch.equal(matrix_, view)
