"""The Triton kernels as they are compiled for sm_90a: registers, widths of loads and stores, what comes first; no GPU is needed."""

import itertools

import pytest

from softbench.measure import cubin
from softbench.measure.worker.loading import load
from softbench.model import Case

pytest.importorskip("triton")
from support.sass import sass
from support.settled import drawn, every
from support.triton_family import ANY_LENGTH, COPY, RUNGS, case, file


def cubins(rung, which):
    return list(load(file(rung), f"triton_{rung}").softbench_cubins(which))


COLUMNS = (1, 256, 1000, 4096, 16384, 32768, 50257, 65536, 131072)


@every(("dtype", "columns"), itertools.product(("float16", "bfloat16", "float32", "float64"), COLUMNS))
def test_cubins_of_the_best_do_not_spill(dtype, columns):
    """8 bytes of stack are what Triton 3.9 makes of an online chunk in float32; 64 values a thread would take 136."""
    for name, code in cubins("best", case(4096, columns, dtype)):
        (kernel,) = cubin.resources(code, name)
        assert kernel.stack_bytes <= 8
        assert kernel.registers <= 128


@every(("columns", "registers"), [(16384, 32), (32768, 64), (65536, 64)])
def test_pieces_leave_room_for_a_second_block(columns, registers):
    """512 threads of 64 registers fill half of the register file; one block alone leaves the memory idle at its end."""
    ((name, code),) = cubins("best", case(4096, columns, "bfloat16"))
    (kernel,) = cubin.resources(code, name)
    assert (name, kernel.stack_bytes) == ("pieces", 0)
    assert kernel.registers <= registers


@every("rung", RUNGS)
def test_every_rung_compiles(rung):
    assert len(cubins(rung, case(16, 8))) == 1
    assert len(cubins(rung, case(4, 1024, "bfloat16", "float32"))) == 1
    assert cubins(rung, case(0, 8)) == []
    if rung in ANY_LENGTH:
        assert len(cubins(rung, case(1, 1 << 20, "float32"))) == (2 if rung == "best" else 1)


def words(*codes):
    """What each cubin's instructions are made of."""
    return [text.split() for text in sass(*codes)]


def test_float32_has_results_below_2_to_the_minus_126():
    """exp2 that keeps them compares with -126; one that flushes them to zero does not."""
    asked = [(rung, n) for rung in RUNGS for n in (1000, 16384, 1 << 20) if n == 1000 or rung in ANY_LENGTH]
    asked = drawn(asked, __name__, "subnormals")
    codes = [cubins(rung, case(2, columns, "float32"))[-1][1] for rung, columns in asked]
    flushing = [which for which, found in zip(asked, words(*codes), strict=True) if "-126," not in found]
    assert not flushing


def memory_words(*codes):
    """The global loads and stores in each cubin, as in LDG.E.128."""
    return [[word for word in found if word.startswith(("LDG.", "STG."))] for found in words(*codes)]


def test_aligned_rows_move_16_bytes_a_thread():
    codes = [cubins("best", case(4096, columns))[0][1] for columns in (1000, 131072, 1001)]
    for found, width in zip(memory_words(*codes), ("128", "128", "U16"), strict=True):
        assert found
        assert all(word.endswith(width) for word in found)


def test_each_rung_is_its_idea():
    """B loads 16 bytes where A loads an element, C goes through shared memory, E four times a turn, F leaves hints."""
    short, long = case(4096, 4096), case(4096, 131072)
    asked = [("single", short), ("wide", short), ("chunked", long), ("unrolled", long), ("two_reads", short)]
    single, wide, chunked, unrolled, two_reads = words(*(cubins(rung, which)[0][1] for rung, which in asked))
    assert {w for w in single if w.startswith("LDG.")} == {"LDG.E.U16"}
    assert {w for w in wide if w.startswith("LDG.")} == {"LDG.E.128"}
    copies = [w for w in chunked if w.startswith("LDGSTS")]
    assert copies
    assert len([w for w in unrolled if w.startswith("LDGSTS")]) >= 2 * len(copies)
    hinted = {w for w in two_reads if w.startswith(("LDG.", "STG."))}
    assert hinted == {"LDG.E.EL.128", "LDG.E.EF.128", "STG.E.EF.128"}


def test_exp2_is_what_exp_was_already():
    """D buys nothing: Triton's exp multiplies by log2(e) and takes ex2, too."""
    for columns in (4096, 131072):
        ((_, exp),) = cubins("chunked", case(4096, columns))
        ((_, exp2),) = cubins("exp2", case(4096, columns))
        counts = [found.count("MUFU.EX2") for found in words(exp, exp2)]
        assert counts[0] == counts[1] > 0
        assert len({cubin.resources(code)[0].registers for code in (exp, exp2)}) == 1


def test_nothing_is_read_before_the_kernel_before_has_ended():
    sizes = ((4096, 4096), (4096, 32768), (4096, 131072), (1, 1 << 20))
    for found in words(*(code for rows, columns in sizes for _, code in cubins("best", case(rows, columns)))):
        first = next(i for i, word in enumerate(found) if word.startswith(("LDG", "STG")))
        assert found.index("ACQBULK") < first


def test_the_roof_moves_exactly_one_vector_a_thread():
    """3 rows leave a partial block, 2**18 x 8192 needs 64-bit offsets."""
    asked = drawn(itertools.product((128, 256, 512), ("plain", "evict_first"), (2**18, 3)), __name__, "roof")
    codes = []
    for threads, hint, rows in asked:
        which = Case("softmax", (rows, 8192), "float16", "float16")
        codes += [code for _, code in load(COPY, "copy").softbench_cubins(which, threads, hint)]
    for (_, hint, _), found in zip(asked, memory_words(*codes), strict=True):
        first = ".EF" if hint == "evict_first" else ""
        assert found == [f"LDG.E{first}.128", f"STG.E{first}.128"]
