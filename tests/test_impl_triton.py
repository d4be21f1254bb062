"""The Triton ladder and triton_best: plans, cubins, launches, and the kernels in Triton's interpreter against float64."""

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
FAMILY = ROOT / "impls" / "triton"
COPY = ROOT / "softbench" / "roof" / "copy.py"
ANY_LENGTH = ("three_pass", "chunked", "exp2", "unrolled", "two_reads", "best")
RUNGS = ("three_pass", "single", "wide", "chunked", "exp2", "unrolled", "two_reads", "best")


def file(rung: str) -> Path:
    return FAMILY / ("best.py" if rung == "best" else "ladder.py")


def case(rows: int, columns: int, dtype: str = "float16", out_dtype: str = "") -> Case:
    return Case("softmax", (rows, columns), dtype, out_dtype or dtype)


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


def interpret(body: str, path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED + body, str(path), name],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("rung", RUNGS)
def test_rows_of_every_dtype(rung):
    """Columns 1 and 7 are below a vector, 1000 a multiple of it but no power of two, 4097 odd, 20000 over one tile."""
    shapes = "(5, 1), (3, 7), (5, 1000), (3, 4097), (2, 20000)"
    interpret(
        f"""
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for shape in ({shapes}):
        if shape[1] <= 16384 or dtype != torch.float64 or {rung in ANY_LENGTH}:
            check((3 * torch.randn(shape, dtype=torch.float64)).to(dtype))
check(torch.randn(4, 64).half(), "float32")
check(torch.randn(2, 9000), "float16")
""",
        file(rung),
        f"triton_{rung}",
    )


@pytest.mark.parametrize("rung", ANY_LENGTH)
def test_long_rows(rung):
    """Many chunks, the last one of one element; enough rows that `best` does not split them, once."""
    shapes = "(2, 36865), (132, 33001)" if rung == "best" else "(2, 36865)"
    interpret(
        f"""
for shape in ({shapes},):
    check((3 * torch.randn(shape)))
    check((3 * torch.randn(shape)).half())
""",
        file(rung),
        f"triton_{rung}",
    )


@pytest.mark.parametrize("span", [1, 2, 4])
def test_several_chunks_at_a_time(span):
    """Parts of one and of three chunks, the last ones short; lanes with nothing but -inf, and below float32's range."""
    interpret(
        f"""
from dataclasses import replace
rung, split = load(Path(sys.argv[1]).parent / "_launch.py", "rung"), load(Path(sys.argv[1]).parent / "_plans.py", "split")
factory = lambda case: rung(case, lambda c: replace(split(c), block=256, parts=-(-c.columns // 768), span={span}))
for dtype in (torch.float16, torch.float32, torch.float64):
    x = (3 * torch.randn(4, 5001, dtype=torch.float64)).to(dtype)
    x[1, 100:4000] = -inf
    x[2] = torch.finfo(dtype).min
    x[3] = -inf
    check(x)
check(torch.full((1, 777), -1e300, dtype=torch.float64))
""",
        file("best"),
        "triton_best",
    )


SPECIAL = """
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
x = torch.cat([x] * {copies})
check(x)
if {sixteen}:
    check(x.clamp_min(-6e4).where(x > -inf, x).half())
x = torch.randn(5, n) + 1e4
x[1] -= 2e4
x[2, 9] = torch.finfo(torch.float32).max
x[3] = torch.linspace(-30, 30, n)
x[4] = torch.linspace(30, -30, n)
check(x)
"""


@pytest.mark.parametrize("columns", [300, 20000])
@pytest.mark.parametrize("rung", RUNGS)
def test_masked_rows_and_extreme_values(rung, columns):
    """Each row exercises another of: partial maxima of -inf, +inf, NaN at every place, finfo limits, large offsets."""
    interpret(SPECIAL.format(columns=columns, copies=1, sixteen=False), file(rung), f"triton_{rung}")


def test_masked_rows_in_pieces():
    """132 rows and more of 16 bits and over 8192 columns are what `best` holds in pieces."""
    spikes = """
x = torch.randn(135, n).half()
for row in range(135):  # exp overflows unless the maximum comes from the right piece
    x[row, row * n // 135] = 200
check(x)
"""
    interpret(SPECIAL.format(columns=9001, copies=15, sixteen=True) + spikes, file("best"), "triton_best")


@pytest.mark.parametrize("rung", ["single", "chunked", "best"])
def test_views_and_ranks(rung):
    """Transposed, strided, stride 0, unaligned and padded rows; 0-d to 4-D; nothing to do."""
    interpret(
        """
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
""",
        file(rung),
        f"triton_{rung}",
    )


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


def cubins(rung: str, which: Case) -> list[tuple[str, bytes]]:
    return list(load(file(rung), f"triton_{rung}").softbench_cubins(which))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("columns", [1, 256, 1000, 4096, 16384, 32768, 50257, 65536, 131072])
def test_cubins_of_the_best_do_not_spill(dtype, columns):
    """8 bytes of stack are what Triton 3.9 makes of an online chunk in float32; 64 values a thread would take 136."""
    for name, code in cubins("best", case(4096, columns, dtype)):
        (kernel,) = cubin.resources(code, name)
        assert kernel.stack_bytes <= 8
        assert kernel.registers <= 128


@pytest.mark.parametrize(("columns", "registers"), [(16384, 32), (32768, 64), (65536, 64)])
def test_pieces_leave_room_for_a_second_block(columns, registers):
    """512 threads of 64 registers fill half of the register file; one block alone leaves the memory idle at its end."""
    ((name, code),) = cubins("best", case(4096, columns, "bfloat16"))
    (kernel,) = cubin.resources(code, name)
    assert (name, kernel.stack_bytes) == ("pieces", 0)
    assert kernel.registers <= registers


@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_compiles(rung):
    assert len(cubins(rung, case(16, 8))) == 1
    assert len(cubins(rung, case(4, 1024, "bfloat16", "float32"))) == 1
    assert cubins(rung, case(0, 8)) == []
    if rung in ANY_LENGTH:
        assert len(cubins(rung, case(1, 1 << 20, "float32"))) == (2 if rung == "best" else 1)


def disassembled(code: bytes, folder: Path) -> list[str]:
    path = folder / "kernel.cubin"
    path.write_bytes(code)
    tool = cubin.cuobjdump().with_name("nvdisasm")
    return subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout.split()


def memory_words(code: bytes, folder: Path) -> list[str]:
    """The global loads and stores in a cubin, as in LDG.E.128."""
    return [word for word in disassembled(code, folder) if word.startswith(("LDG.", "STG."))]


@pytest.mark.parametrize(("columns", "width"), [(1000, "128"), (131072, "128"), (1001, "U16")])
def test_aligned_rows_move_16_bytes_a_thread(columns, width, tmp_path):
    ((_, code),) = cubins("best", case(4096, columns))
    words = memory_words(code, tmp_path)
    assert words
    assert all(word.endswith(width) for word in words)


def test_each_rung_is_its_idea(tmp_path):
    """B loads 16 bytes where A loads an element, C goes through shared memory, E four times a turn, F leaves hints."""
    short, long = case(4096, 4096), case(4096, 131072)

    def words(rung: str, which: Case) -> list[str]:
        ((_, code),) = cubins(rung, which)
        return disassembled(code, tmp_path)

    assert {w for w in words("single", short) if w.startswith("LDG.")} == {"LDG.E.U16"}
    assert {w for w in words("wide", short) if w.startswith("LDG.")} == {"LDG.E.128"}
    copies = [w for w in words("chunked", long) if w.startswith("LDGSTS")]
    assert copies
    assert len([w for w in words("unrolled", long) if w.startswith("LDGSTS")]) >= 2 * len(copies)
    hinted = {w for w in words("two_reads", short) if w.startswith(("LDG.", "STG."))}
    assert hinted == {"LDG.E.EL.128", "LDG.E.EF.128", "STG.E.EF.128"}


def test_exp2_is_what_exp_was_already(tmp_path):
    """D buys nothing: Triton's exp multiplies by log2(e) and takes ex2, too."""
    for columns in (4096, 131072):
        ((_, exp),) = cubins("chunked", case(4096, columns))
        ((_, exp2),) = cubins("exp2", case(4096, columns))
        counts = [disassembled(code, tmp_path).count("MUFU.EX2") for code in (exp, exp2)]
        assert counts[0] == counts[1] > 0
        assert len({cubin.resources(code)[0].registers for code in (exp, exp2)}) == 1


@pytest.mark.parametrize(("rows", "columns"), [(4096, 4096), (4096, 32768), (4096, 131072), (1, 1 << 20)])
def test_nothing_is_read_before_the_kernel_before_has_ended(rows, columns, tmp_path):
    for _, code in cubins("best", case(rows, columns)):
        words = disassembled(code, tmp_path)
        first = next(i for i, word in enumerate(words) if word.startswith(("LDG", "STG")))
        assert words.index("ACQBULK") < first


@pytest.mark.parametrize("threads", [128, 256, 512])
@pytest.mark.parametrize("hint", ["plain", "evict_first"])
@pytest.mark.parametrize("rows", [2**18, 3])
def test_the_roof_moves_exactly_one_vector_a_thread(threads, hint, rows, tmp_path):
    """3 rows leave a partial block, 2**18 x 8192 needs 64-bit offsets."""
    which = Case("copy", (rows, 8192), "float16", "float16")
    ((_, code),) = load(COPY, "copy").softbench_cubins(which, threads, hint)
    first = ".EF" if hint == "evict_first" else ""
    assert memory_words(code, tmp_path) == [f"LDG.E{first}.128", f"STG.E{first}.128"]
