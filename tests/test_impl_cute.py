"""impls/cute without a GPU: the layout table, what is refused, and the compiled kernels."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from softbench import Unsupported
from softbench.model import Case

FOLDER = Path(__file__).parents[1] / "impls" / "cute"
PACKAGE = "_test_impl_cute"


@pytest.fixture(scope="module")
def family():
    """impls/cute as a package under a private name, as a worker loads it."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(FOLDER)]
    sys.modules[PACKAGE] = package
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in [n for n in sys.modules if n.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def case(columns: int, dtype: str = "float16", out_dtype: str = "", rows: int = 4) -> Case:
    return Case("softmax", (rows, columns), dtype, out_dtype or dtype)


@pytest.mark.parametrize(
    ("columns", "itemsize", "cluster", "threads", "threads_per_row", "vectors_per_thread"),
    [
        (8, 2, 1, 128, 1, 1),  # one vector: 128 rows a CTA
        (256, 2, 1, 128, 32, 1),
        (1000, 2, 1, 128, 32, 4),  # uneven: 125 vectors on 32 threads
        (1024, 2, 1, 128, 32, 4),  # the last that one warp takes alone
        (1032, 2, 1, 128, 64, 3),
        (4096, 2, 1, 128, 128, 4),
        (16384, 2, 1, 256, 256, 8),  # 32 KiB: the last without a cluster
        (16392, 2, 2, 256, 256, 5),
        (131072, 2, 8, 256, 256, 8),
        (128256, 2, 8, 256, 256, 8),
        (262144, 2, 16, 256, 256, 8),
        (1048576, 2, 16, 1024, 1024, 8),  # beyond 512 KiB a row the share grows
        (8192, 4, 1, 256, 256, 8),
        (262144, 4, 16, 512, 512, 8),
    ],
)
def test_layout(family, columns, itemsize, cluster, threads, threads_per_row, vectors_per_thread):
    config = family("htile.config").choose(columns, itemsize)
    found = (config.cluster, config.threads, config.threads_per_row, config.vectors_per_thread)
    assert found == (cluster, threads, threads_per_row, vectors_per_thread)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("share_bytes", [8 * 1024, 32 * 1024, 128 * 1024])
def test_every_vector_of_a_row_has_one_thread(family, itemsize, share_bytes):
    choose = family("htile.config").choose
    for vectors in [*range(1, 700), 2047, 2048, 2049, 4095, 4097, 16032, 16385, 32767, 65535, 131072]:
        config = choose(vectors * 16 // itemsize, itemsize, "sm_90", share_bytes)
        shares = [min(config.cta_vectors, vectors - rank * config.cta_vectors) for rank in range(config.cluster)]
        assert min(shares) > 0, "a CTA without columns"
        assert sum(shares) == vectors
        assert config.cta_vectors <= config.threads_per_row * config.vectors_per_thread
        assert config.cta_vectors > config.threads_per_row * (config.vectors_per_thread - 1)
        assert config.rows == 1 or config.cluster == 1, "the mbarrier of a cluster counts one row"
        assert config.is_even == (vectors == config.cluster * config.threads_per_row * config.vectors_per_thread)
        assert config.shared_bytes <= 227 * 1024


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (case(1001), "whole 16-byte vectors"),
        (case(1023, "float32"), "whole 16-byte vectors"),
        (case(4096, "float64"), "float64"),
        (case(4096, "float32", "float16"), "float32 to float16"),
        (case(1048576, "float32"), "shared memory"),
        (case(2097152), "shared memory"),
    ],
)
def test_refusal_has_a_reason(family, asked, reason):
    with pytest.raises(Unsupported, match=reason) as refusal:
        list(family("softmax").cute_cluster.softbench_cubins(asked))
    assert "\n" not in str(refusal.value)


def test_config_refuses_what_the_kernel_cannot_divide(family):
    config = family("htile.config")
    with pytest.raises(ValueError, match="power of two"):
        config.ElementwiseTileConfig(4096, 2, 3, 128, 128)
    with pytest.raises(ValueError, match="sm_80"):
        config.choose(4096, 2, "sm_80")


@pytest.mark.parametrize("out_dtype", ["float16", "float32"])
def test_empty_input_needs_no_kernel(family, out_dtype):
    torch = pytest.importorskip("torch")
    for shape in [(0, 4096), (3, 0), (2, 0, 8)]:
        launch = family("softmax").cute_cluster(Case("softmax", shape, "float16", out_dtype))
        y = launch(torch.empty(shape, dtype=torch.float16))
        assert y.shape == shape
        assert y.dtype is getattr(torch, out_dtype)


def test_rows_must_start_on_16_bytes(family):
    torch = pytest.importorskip("torch")
    aligned_rows = family("softmax")._aligned_rows
    whole = torch.empty((3, 4 * 1024 + 8), dtype=torch.float16)
    assert aligned_rows(whole[:, :4096], 3, 4096).stride() == (4104, 1)
    assert aligned_rows(torch.empty((2, 3, 64)), 6, 64).shape == (6, 64)
    odd = torch.empty((3, 4097), dtype=torch.float16)
    for bad in (whole[:, 1:4097], odd[:, :4096], torch.empty((4096, 3), dtype=torch.float16).T):
        with pytest.raises(Unsupported, match="input"):
            aligned_rows(bad, 3, 4096)


@pytest.fixture(scope="module")
def resources(family, tmp_path_factory):
    """(registers, stack bytes, SASS) of the kernel of a case."""
    pytest.importorskip("cutlass")
    triton = pytest.importorskip("triton")
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    folder = tmp_path_factory.mktemp("cubins")

    def inspect(asked: Case) -> tuple[int, int, str]:
        ((name, cubin),) = family("softmax").cute_cluster.softbench_cubins(asked)
        path = folder / f"{name}.cubin"
        path.write_bytes(cubin)
        usage = subprocess.run([tool, "-res-usage", path], capture_output=True, text=True, check=True).stdout
        sass = subprocess.run([tool, "-sass", path], capture_output=True, text=True, check=True).stdout
        assert "sm_90a" in sass
        return int(re.search(r"REG:(\d+)", usage)[1]), int(re.search(r"STACK:(\d+)", usage)[1]), sass

    return inspect


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("columns", [256, 1000, 4096, 16384, 128256, 262144])
def test_few_registers_and_no_spills(resources, dtype, columns):
    registers, stack, sass = resources(case(columns, dtype))
    assert stack == 0
    assert registers <= 40, "more than 40 registers take CTAs off the SM"
    assert "LDGSTS" in sass
    assert "STG.E.128" in sass
    in_cluster = columns * (4 if dtype == "float32" else 2) > 32 * 1024
    assert ("STAS.64" in sass) == in_cluster, "pairs go to the other CTAs by st.async, and only in a cluster"


@pytest.mark.parametrize(("columns", "out_dtype"), [(4096, "float32"), (1048576, "float16"), (8, "float16")])
def test_the_ends_of_the_range_compile_without_spills(resources, columns, out_dtype):
    registers, stack, _ = resources(case(columns, "float16", out_dtype))
    assert stack == 0
    assert registers <= 64, "1024 threads have 64 registers each"
