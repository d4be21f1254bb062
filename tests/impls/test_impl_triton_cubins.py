"""The Triton kernels as they are compiled for sm_90a: registers, widths of loads and stores, what comes first; no GPU is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from softbench.measure import cubin
from softbench.measure.worker.loading import load
from softbench.model import Case

pytest.importorskip("triton")
from support.triton_family import ANY_LENGTH, COPY, RUNGS, case, file


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


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("columns", [1000, 16384, 1 << 20])
def test_float32_has_results_below_2_to_the_minus_126(rung, columns, tmp_path):
    """exp2 that keeps them compares with -126; one that flushes them to zero does not."""
    if columns == 1000 or rung in ANY_LENGTH:
        _, code = cubins(rung, case(2, columns, "float32"))[-1]
        assert "-126," in disassembled(code, tmp_path)


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
