"""The whole layout table of impls/cute, compiled for sm_90a: registers, stack and shared memory are held to limits.

Every kernel is compiled as it is for a Hopper GPU of 132 multiprocessors; nothing needs a GPU.
"""

import itertools
import re
from dataclasses import dataclass, replace

import pytest
from support.sass import sass
from support.settled import drawn, every

from impls.cute.htile.crews import SplitTileConfig
from softbench.measure import cubin
from softbench.model import Case

pytest.importorskip("cutlass")
pytest.importorskip("tvm_ffi")

from impls.cute import _host, _layouts, _plans, ladder, masks
from impls.cute.htile import times
from impls.cute.htile.config import SHARED_BYTES, RowTileConfig
from impls.cute.htile.packing import PackedTileConfig
from impls.cute.htile.parts import MOST_VECTORS

GPU = _layouts.HOPPER
SHARED = SHARED_BYTES[GPU.architecture]
REGISTERS, CTA_BYTES = 64 * 1024, 1024  # of a multiprocessor; of shared memory, which the hardware keeps for itself
NO_SPILLS_COLUMNS = 262144

# Registers a thread, up to NO_SPILLS_COLUMNS; a GPU hands them out in eights. A multiprocessor's 2048 threads have 32
# each; gradients of short rows that start anywhere give them up, and LayerNorm for rows whose sixteen vectors a thread are
# converted once and whose weights wait beside them (docs/notes/performance.md): 168 at most where three CTAs of 128 threads fit.
MOST_REGISTERS = {"softmax": 56, "softmax_backward": 96, "rmsnorm": 80, "layernorm": 168}
# 172 of unaligned rows, whose CTAs have 160 threads, and 181 of a CTA of 256 that is alone.
MORE_REGISTERS = {("layernorm", "bfloat16", 65536): 176, ("layernorm", "float16", 262144): 184}
LEAST_CTAS = 2  # on a multiprocessor at a time: with one, nothing is loaded while its rows are reduced
TILES = {"softmax_backward": 2}

SHORT = [128, 256, 512, 1000, 1024, 2048, 4096, 6144, 8192]
WHOLE = [*SHORT, 16384, 32768, 65536, 128256, 131072, 151936, 262144, 1048576]
ODD = [1, 7, 8191, 50257]
# Rows of whole vectors that start elsewhere: one of each kind of layout that unaligned rows have.
PACKED = [1, 3, 13, 66, 127, 243, 769, 1180, 1279]
SHIFTED = [128, 1000, 2048, 4096, 14000, 16384, 65536, 151936, 262144]
# Rows of a million columns have 64 registers a thread at the most; norms, whose weights are there too, spill.
BESIDE_STACK_BYTES = 48
SPLIT_STACK_BYTES = 48
LONG_STACK_BYTES = {"layernorm": 152}
WHOLE_VECTORS, ANYWHERE, DENSE = "padded-8", "padded-1", "contiguous"  # the last: rows that start anywhere, side by side


def cell(operator, dtype, columns, layout=WHOLE_VECTORS, out_dtype=""):
    return Case(operator, (10**6, columns), dtype, out_dtype or dtype, layout)


def builds(case):
    """All but gradients over the whole GPU, which have a test of their own."""
    found = _plans.of_case(case, GPU, case.layout == WHOLE_VECTORS)
    return [build for build in found if build.kernel != "split_softmax_backward.SplitSoftmaxBackward"]


def cells():
    """Whole rows of softmax in every dtype; the others in one 16-bit dtype, whose layouts are the same, and in float32."""
    for operator in MOST_REGISTERS:
        for i, columns in enumerate(WHOLE):
            dtypes = _plans.ITEM_BYTES if operator == "softmax" else (("float16", "bfloat16")[i % 2], "float32")
            yield from (cell(operator, dtype, columns) for dtype in dtypes)
        for i, columns in enumerate(sorted(ODD + SHIFTED)):
            yield cell(operator, ("float16", "bfloat16")[i % 2], columns, ANYWHERE)
            if operator != "layernorm" or columns in ODD:
                yield cell(operator, "float32", columns, ANYWHERE)
        yield cell(operator, "float32", 1048576, ANYWHERE)
        for i, columns in enumerate(PACKED):
            yield cell(operator, ("float16", "bfloat16")[i % 2], columns, DENSE)
            yield cell(operator, "float32", min(columns, 511), DENSE)
    yield from (cell("softmax", "float16", columns, WHOLE_VECTORS, "float32") for columns in WHOLE)
    yield from (cell("softmax", "float16", columns, ANYWHERE, "float32") for columns in ODD)
    yield cell("layernorm", "float16", 6201, ANYWHERE)  # rows that several warps have in registers


@dataclass(frozen=True)
class Compiled:
    config: object
    code: bytes
    registers: int
    stack: int
    shared: int

    @property
    def resident(self):
        """CTAs on a multiprocessor at a time."""
        threads = self.config.threads
        by_registers = REGISTERS // (-(-self.registers // 8) * 8 * threads)
        return min(by_registers, 2048 // threads, SHARED // (self.shared + CTA_BYTES))

    def held_to_one_cta(self, stack=0):
        """A CTA has the registers that it asks for, and keeps no more in memory."""
        assert self.stack <= stack
        assert self.registers * getattr(self.config, "cta_threads", self.config.threads) <= REGISTERS

    def held_to_split(self):
        """A cooperative launch needs a CTA on every multiprocessor, and a ring in a cluster has all that there is."""
        self.held_to_one_cta(SPLIT_STACK_BYTES if self.config.is_ring else 0)
        assert self.shared <= self.config.shared_bytes <= SHARED

    def held_to_packed(self, tiles):
        """Three CTAs, so that two bring and write rows while one computes."""
        assert self.stack == 0
        assert self.shared <= self.config.shared_bytes(tiles)
        assert self.resident >= 3


def compiled(build):
    import cutlass

    taken = []

    class Recording(cutlass.memory.SmemAllocator):
        def allocate_tensor(self, element_type, layout, *given, **named):
            taken.append(element_type.width // 8 * cutlass.cute.cosize(layout))
            return super().allocate_tensor(element_type, layout, *given, **named)

        def allocate_array(self, element_type, count, *given, **named):
            taken.append(element_type.width // 8 * count)
            return super().allocate_array(element_type, count, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutlass.memory, "SmemAllocator", Recording)
        code = _host.cubin(build)
    (used,) = cubin.resources(code)
    return Compiled(build.config, code, used.registers, used.stack_bytes, sum(taken))


def held_to_legal_copies(codes):
    """What CUDA 12's assembler makes of a `cp.async` with a policy and two uniform addresses is an illegal instruction."""
    listings = zip(codes, sass(*codes.values()), strict=True)
    illegal = {name: re.findall(r"LDGSTS\S* \[\S+\+UR\S*\], desc", text) for name, text in listings}
    assert not {name: found for name, found in illegal.items() if found}


@pytest.mark.parametrize("operator", MOST_REGISTERS)
def test_the_kernels_of_the_table(operator):
    failures, copying = [], {}
    mine = dict.fromkeys(case for case in cells() if case.operator == operator)
    for case in drawn(mine, __name__, operator):
        kernel = compiled(builds(case)[0])
        if getattr(kernel.config, "keep", "shared") == "shared":
            copying[case.id] = kernel.code
        try:
            held_to_limits(case, kernel)
        except AssertionError as error:
            failures.append(f"{case.id}: {error}")
    assert not failures, "\n".join(failures)
    if copying:  # a drawn part may have none
        held_to_legal_copies(copying)


def held_to_limits(case, kernel):
    operator, config, registers, shared = case.operator, kernel.config, kernel.registers, kernel.shared
    tiles = TILES.get(operator, 1)
    if isinstance(config, SplitTileConfig):
        kernel.held_to_split()
        return
    if isinstance(config, PackedTileConfig):
        kernel.held_to_packed(tiles)
        return
    expected = config.shared_bytes(tiles)
    assert shared <= expected <= SHARED - CTA_BYTES
    if config.keep == "shared":
        assert shared >= config.shared_columns * config.itemsize * tiles
    if config.beside:  # vectors in registers are for the sake of a second CTA
        assert kernel.resident >= 2
        assert kernel.stack <= BESIDE_STACK_BYTES
        return
    if case.columns > NO_SPILLS_COLUMNS:
        kernel.held_to_one_cta(LONG_STACK_BYTES.get(operator, 0))
        return
    name = (operator, case.dtype, case.columns)
    limit = MORE_REGISTERS.get(name, MOST_REGISTERS[operator])
    assert registers <= (REGISTERS // (config.resident * config.threads) if config.resident else limit)
    assert kernel.stack == 0
    alone = config.cta_vectors * 16 > SHARED // 2
    assert kernel.resident >= (1 if alone else LEAST_CTAS)


@every(("operator", "dtype", "columns"), itertools.product(("masked_softmax", "biased_softmax"), ("bfloat16", "float32"), PACKED))
def test_the_packed_kernels_of_masks(operator, dtype, columns):
    case = Case(operator, (1, min(columns, 511) if dtype == "float32" else columns), dtype, dtype, params=(("scale", 0.125),))
    build, tiles = masks.of_case(case, GPU, False)[0], 2 if operator == "biased_softmax" else 1 + 1 / _plans.ITEM_BYTES[dtype]
    assert build.kernel == "packed.MaskedSoftmax"
    compiled(build).held_to_packed(tiles)


@every(("dtype", "columns", "window"), itertools.product(("bfloat16", "float32"), (264, 2048, 8192, 20001, 131072), (128, 10**6)))
def test_the_kernels_of_spans(dtype, columns, window):
    params = (("scale", 0.125), ("window", window), ("alibi", 1.0))
    kernel = compiled(masks.of_case(Case("causal_softmax", (4, columns), dtype, dtype, params=params), GPU, columns % 8 == 0)[0])
    assert kernel.stack == 0
    assert kernel.resident * kernel.config.threads >= 1024


@every("columns", [65536, 131072])
def test_bfloat16_takes_no_more_registers_than_float16(columns):
    """exp2's form that gives subnormals takes 40 where 32 let eight CTAs of 256 threads on a multiprocessor."""
    float16, bfloat16 = (compiled(builds(cell("softmax", dtype, columns))[0]) for dtype in ("float16", "bfloat16"))
    assert replace(bfloat16, code=float16.code) == float16


@every(("dtype", "columns"), [("float16", 640474), ("bfloat16", 835864), ("float32", 915602)])
def test_the_kernels_of_gradients_over_the_whole_gpu(dtype, columns):
    aligned = columns % 8 == 0
    few = _layouts.few(64, columns, _plans.ITEM_BYTES[dtype], GPU, aligned, tiles=2)
    split, *others = _plans.softmax_backward(columns, dtype, dtype, GPU, aligned, few, True)
    unlike = [replace(build, config=replace(build.config, alike=False)) for build in others]
    assert unlike == list(_plans.softmax_backward(columns, dtype, dtype, GPU, aligned, few, False))[aligned:], (
        "rows that start anywhere are split only where both matrices are dense, and so start alike"
    )
    assert split.config.tiles == 2
    compiled(split).held_to_one_cta()


@every(("dtype", "row"), itertools.product(("float16", "float32"), ((262144, WHOLE_VECTORS), (50257, ANYWHERE))))
def test_what_a_refused_cluster_falls_back_to(dtype, row):
    copying = {}
    for build in builds(cell("softmax", dtype, *row))[1:-1]:
        kernel = compiled(build)
        kernel.held_to_one_cta()
        assert kernel.shared <= build.config.shared_bytes() <= SHARED - CTA_BYTES
        copying[build.config] = kernel.code
    held_to_legal_copies(copying)


@every(("dtype", "columns", "aligned"), itertools.product(("float16", "float32"), (32768, 131072, 262144), (True, False)))
def test_few_rows_stay_in_registers(dtype, columns, aligned):
    """And as many CTAs are on a multiprocessor as the predicted times count on, or one less."""
    config = _plans.choose_few(columns - (not aligned), _plans.ITEM_BYTES[dtype], GPU.architecture, aligned)
    build = next(_plans.softmax(config.columns, dtype, dtype, GPU, aligned, "cluster"))
    kernel = compiled(build)
    assert (build.config, config.keep) == (config, "registers")
    assert kernel.stack == 0
    assert kernel.resident >= max(1, times.ctas(config) - 1)


@every(("dtype", "parts", "aligned"), itertools.product(("bfloat16", "float32"), (2, 7), (True, False)))
def test_the_longest_rows_of_several_clusters_stay_in_registers(dtype, parts, aligned):
    columns = (parts * 16 * MOST_VECTORS * 16 - 132 * (not aligned)) // _plans.ITEM_BYTES[dtype]
    build = next(_plans.softmax(columns, dtype, dtype, GPU, aligned, f"parts {parts}"))
    assert (build.config.cta_vectors, compiled(build).stack) == (MOST_VECTORS, 0)


@every(("dtype", "columns"), itertools.product(_plans.ITEM_BYTES, (325001, 353239, 426629, 500001, 565001)))
def test_two_shares_of_a_long_row_are_on_a_multiprocessor(dtype, columns):
    """With one, as 704 threads of eight vectors are, rows of 706479 float16 were at 57 % of the roof."""
    columns = columns * 4 // _plans.ITEM_BYTES[dtype] + (dtype != "float32" and columns % 2)
    layout = WHOLE_VECTORS if _plans.whole_vectors(columns, _plans.ITEM_BYTES[dtype]) else ANYWHERE
    of_rows = [build for build in builds(cell("softmax", dtype, columns, layout)) if isinstance(build.config, RowTileConfig)]
    kernel = compiled(of_rows[0])
    config = kernel.config
    assert (config.keep, config.cluster, config.threads) == ("shared", 16, 448)
    assert kernel.resident >= 2
    assert kernel.stack <= BESIDE_STACK_BYTES * bool(config.beside)


def test_rows_that_are_split_over_the_whole_gpu():
    sizes, codes = ((1048576, True), (700001, False), (100_000_000, True)), {}
    rows = itertools.product(("float16", "float32"), sizes, (1, "split", "crews"))
    for dtype, (columns, aligned), few in drawn(rows, __name__, "split rows"):
        build = next(_plans.softmax(columns, dtype, dtype, GPU, aligned, few))
        config = build.config
        assert isinstance(config, SplitTileConfig)
        assert config.is_ring == (few != 1 and columns < 10**7)
        kernel = compiled(build)
        kernel.held_to_split()
        codes[dtype, columns, few] = kernel.code
    held_to_legal_copies(codes)


def test_asynchronous_copies_of_short_rows_are_legal():
    codes = {}
    for columns, aligned in ((128, True), (264, True), (1024, True), (31, False), (1001, False)):
        (build,) = ladder.SHARED(Case("softmax", (33, columns), "float16", "float16"), GPU, aligned)[:1]
        assert (build.config.keep, build.config.rows > 1) == ("shared", True)
        codes[columns] = _host.cubin(build)
    held_to_legal_copies(codes)


def test_the_cells_are_every_kind_of_layout():
    layouts = {(builds(case)[0].config, case.operator) for case in cells()}
    for operator in MOST_REGISTERS:
        found = [config for config, of in layouts if of == operator and isinstance(config, RowTileConfig)]
        assert {config.keep for config in found} >= {"registers", "shared"}
        between = {"rmsnorm": {2}, "layernorm": {2, 8, 16}}.get(operator, set())  # longer rows of norms have rings
        assert {config.cluster for config in found} == {1, 2, 4, 8, 16} - between
        assert {config.rows > 1 for config in found} == {config.is_even for config in found} == {True, False}
        kept = itertools.product(("registers", "shared"), (True, False))
        last = {("shared", False)} if operator.endswith("norm") else set()  # such rows are in registers, or split
        assert {(config.keep, config.aligned) for config in found} >= {*kept} - last
