"""triton_online: its plan, its cubins, and its kernels in Triton's interpreter against float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softbench import Unsupported, cubin
from softbench.model import Case
from softbench.worker.loading import load

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "impls" / "triton" / "softmax.py"
COPY = ROOT / "softbench" / "roof" / "copy.py"


def case(rows: int, columns: int, dtype: str = "float16", out_dtype: str = "") -> Case:
    return Case("softmax", (rows, columns), dtype, out_dtype or dtype)


def plan(*args, **kwargs):
    return load(FILE, "plan")(case(*args, **kwargs))


# Runs in a process of its own: the interpreter has to be chosen before triton's kernels are decorated.
INTERPRETED = """
import sys, warnings
warnings.simplefilter("error")
# numpy's words for what a GPU does silently: -inf minus -inf, which is how an all -inf row becomes NaN.
warnings.filterwarnings("ignore", category=RuntimeWarning)
import torch
from pathlib import Path
from softbench.model import Case
from softbench.worker.loading import load
factory = load(Path(sys.argv[1]), sys.argv[2])
inf, nan = float("inf"), float("nan")
torch.manual_seed(7)

def check(x, out_dtype=None, **params):
    dtype = str(x.dtype).removeprefix("torch.")
    case = Case("softmax", tuple(x.shape), dtype, out_dtype or dtype)
    before = x.clone()
    y = factory(case, **params)(x)
    assert str(y.dtype) == f"torch.{case.out_dtype}" and y.shape == x.shape, (y.dtype, y.shape)
    assert torch.equal(before.nan_to_num(3.0), x.nan_to_num(3.0)), "input modified"
    right = torch.softmax(x.double(), -1)
    assert torch.equal(y.isnan(), right.isnan()), (case.id, "NaN masks differ")
    info = torch.finfo(y.dtype)
    if x.numel():
        # (x - maximum) is rounded once and multiplied once, so its error grows with it.
        depth = (x.double() - x.double().amax(-1, keepdim=True)).abs().nan_to_num(0.0, 0.0, 0.0)
        allowed = (info.eps + (1 + depth) * (2**-20 if x.dtype != torch.float64 else 2**-46)) * right + info.tiny
        error = (y.double() - right).abs()
        assert not (error > allowed).any(), (case.id, error.nan_to_num().max())
"""


def interpret(body: str, path: Path = FILE, name: str = "triton_online") -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED + body, str(path), name],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_short_and_long_rows_of_every_dtype():
    """Columns 1 and 7 are below a vector, 1000 a multiple of it but no power of two, 4097 and 33001 odd."""
    interpret("""
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for shape in ((5, 1), (3, 7), (5, 1000), (3, 4097), (1, 20000), (3, 33001)):
        check((3 * torch.randn(shape, dtype=torch.float64)).to(dtype))
check(torch.randn(4, 64).half(), "float32")
check(torch.randn(2, 40000), "float16")
""")


@pytest.mark.parametrize("columns", [300, 40000])
def test_masked_rows_and_extreme_values(columns):
    """Each row exercises another of: partial maxima of -inf, +inf, NaN at every place, finfo limits, large offsets."""
    interpret(f"""
n = {columns}
x = torch.randn(9, n)
x[0] = -inf
x[1, 1:] = -inf
x[2, : n - 1] = -inf
x[3, 5] = inf
x[4, n - 1] = nan
x[5, 0] = nan
x[6] = torch.finfo(torch.float32).min
x[7, n // 4 :] = -inf
x[7, n // 2] = nan
x[8, ::2] = -inf
check(x)
x = torch.randn(5, n) + 1e4
x[1] -= 2e4
x[2, 9] = torch.finfo(torch.float32).max
x[3] = torch.linspace(-30, 30, n)
x[4] = torch.linspace(30, -30, n)
check(x)
""")


def test_views_and_ranks():
    """Transposed, strided, stride 0, unaligned and padded rows; 0-d to 4-D; nothing to do."""
    interpret("""
check(torch.randn(64, 40).t())
check(torch.randn(4, 80)[:, ::2])
check(torch.randn(40).expand(5, 40))
check(torch.randn(5, 1).expand(5, 40))
check(torch.randn(401)[1:].view(10, 40))
check(torch.randn(6, 48)[:, :40].half())
check(torch.randn(6, 43)[:, :40].half())
check(torch.randn(4, 10, 8).transpose(0, 1))
check(torch.randn(3, 50000)[:, ::2])
check(torch.randn(20000, 2).t())
for shape in ((), (9,), (2, 3, 4, 5), (0, 5), (5, 0), (2, 0, 4)):
    check(torch.randn(shape))
""")


def test_the_roof_copies_every_byte():
    """float16 of odd length has 2-byte words, 4099 int32 words leave a partial block."""
    interpret(
        """
for shape, dtype in (((4099,), torch.float32), ((33, 2), torch.float16), ((3, 341), torch.float16),
                     ((0, 4), torch.float32), ((), torch.float64), ((64, 128), torch.bfloat16)):
    x = torch.randn(shape, dtype=torch.float64).to(dtype)
    for threads in (128, 512):
        for hint in ("plain", "evict_first"):
            name = str(dtype).removeprefix("torch.")
            y = factory(Case("copy", shape, name, name), threads, hint)(x)
            assert torch.equal(x, y) and y.data_ptr() != x.data_ptr() or x.numel() == 0
""",
        COPY,
        "copy",
    )


def test_the_roof_refuses_what_is_no_copy():
    copy = load(COPY, "copy")
    with pytest.raises(Unsupported, match="float16 to float32"):
        copy(Case("copy", (4, 4), "float16", "float32"), 128, "plain")
    with pytest.raises(Unsupported, match="transposed"):
        copy(Case("copy", (4, 4), "float16", "float16", layout="transposed"), 128, "plain")


def test_the_plan_follows_the_row():
    assert plan(32768, 256).rows == 8
    assert not plan(32768, 1000).long
    assert plan(32768, 1000).block == 1024
    assert not plan(4096, 16384).long
    assert plan(4096, 16385).long
    assert plan(4096, 8193, "float64").long
    assert plan(1, 1 << 27).long
    for columns in (1, 3, 1024, 8191, 16384, 65536):
        chosen = plan(64, columns)
        assert chosen.block & (chosen.block - 1) == 0
        assert chosen.long or chosen.block >= columns


def test_the_vector_divides_length_and_stride():
    vector = load(FILE, "vector")
    assert [vector(n, n, 2) for n in (4096, 1000, 1001, 1002, 4)] == [8, 8, 1, 2, 4]
    assert vector(1024, 1027, 2) == 1
    assert vector(1024, 0, 4) == 4


def test_refusals():
    factory = load(FILE, "triton_online")
    with pytest.raises(Unsupported, match="int8"):
        factory(case(4, 4, "int8"))
    with pytest.raises(Unsupported, match="elements at most"):
        factory(case(1, 2**31))


def cubins(which: Case):
    return list(load(FILE, "triton_online").softbench_cubins(which))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("columns", [1, 256, 1000, 4096, 16384, 50257, 131072])
def test_cubins_fit_without_spills(dtype, columns):
    """Two blocks of 512 threads a multiprocessor need 64 registers a thread; more would leave its memory idle."""
    ((name, code),) = cubins(case(4096, columns, dtype))
    (kernel,) = cubin.resources(code, name)
    assert kernel.stack_bytes == 0
    assert kernel.registers <= (64 if columns % 8 == 0 and dtype != "float64" else 128)


def test_cubins_of_one_column_of_vectors_and_of_nothing():
    assert len(cubins(case(16, 8))) == 1
    assert len(cubins(case(4, 1024, "bfloat16", "float32"))) == 1
    assert cubins(case(0, 8)) == []


def memory_words(code: bytes, folder: Path) -> list[str]:
    """The global loads and stores in a cubin, as in LDG.E.128."""
    path = folder / "kernel.cubin"
    path.write_bytes(code)
    tool = cubin.cuobjdump().with_name("nvdisasm")
    text = subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout
    return [word for word in text.split() if word.startswith(("LDG.", "STG."))]


@pytest.mark.parametrize(("columns", "width"), [(1000, "128"), (131072, "128"), (1001, "U16")])
def test_aligned_rows_move_16_bytes_a_thread(columns, width, tmp_path):
    ((_, code),) = cubins(case(4096, columns))
    words = memory_words(code, tmp_path)
    assert words
    assert all(word.endswith(width) for word in words)


@pytest.mark.parametrize("threads", [128, 256, 512])
@pytest.mark.parametrize("hint", ["plain", "evict_first"])
@pytest.mark.parametrize("rows", [2**18, 3])
def test_the_roof_moves_exactly_one_vector_a_thread(threads, hint, rows, tmp_path):
    """3 rows leave a partial block, 2**18 x 8192 needs 64-bit offsets."""
    which = Case("copy", (rows, 8192), "float16", "float16")
    ((_, code),) = load(COPY, "copy").softbench_cubins(which, threads, hint)
    first = ".EF" if hint == "evict_first" else ""
    assert memory_words(code, tmp_path) == [f"LDG.E{first}.128", f"STG.E{first}.128"]
