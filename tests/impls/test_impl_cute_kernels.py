"""The kernels of impls/cute/kernels, compiled for sm_90a: their launches; of those beside softmax what they read and write."""

import itertools
import math
import re
import types
from dataclasses import replace

import pytest
from support.grids import over
from support.sass import sass
from support.settled import drawn, every

from impls.cute.htile.crews import SplitTileConfig
from softbench.measure import cubin

pytest.importorskip("cutlass")
pytest.importorskip("tvm_ffi")

from impls.cute import _host, _layouts, _plans
from impls.cute.htile.config import RowTileConfig
from impls.cute.htile.launch import launch_rows, launch_split
from impls.cute.htile.layouts import choose, choose_few

# Matrices that are read, and written; weights.
OPERATORS = {"backward": (2, 1, 0), "rmsnorm": (1, 1, 1), "layernorm": (1, 1, 2), "add_layernorm": (2, 2, 2)}


def compiled(operator, config, dtype="bfloat16", weight=""):
    """(registers, stack bytes, cubin) of an operator; weight: the dtype of the weights, that of the rows by default."""
    weight, layer = weight or dtype, operator != "rmsnorm"
    total, statistic = (dtype, "float32") if operator == "add_layernorm" else ("", "")
    build = norm(config, layer, dtype, weight, weight if layer else "", total, dtype, total, statistic, statistic)
    if operator == "backward":
        build = _host.Build("softmax_backward.SoftmaxBackward", config, (dtype,) * 3)
    code = _host.cubin(build)
    (used,) = cubin.resources(code)
    return used.registers, used.stack_bytes, code


def norm(config, layer, *dtypes):
    return _host.Build("norm.Norm", config, dtypes, (("layer", layer), ("eps", 1e-5)))


def count(sass, pattern):
    return len(re.findall(pattern, sass))


def chosen(operator, columns, dtype, aligned=True):
    inputs, _, weights = OPERATORS[operator]
    return choose(columns, _plans.ITEM_BYTES[dtype], "sm_90", aligned, inputs, weights)


@every(("columns", "dtype"), itertools.product((1024, 4096, 16384, 65536, 131072, 262144), ("bfloat16", "float32")))
def test_a_norm_of_two_matrices_into_two_spills_nothing(columns, dtype):
    registers, stack, code = compiled("add_layernorm", chosen("add_layernorm", columns, dtype), dtype)
    assert stack == 0
    assert not count(sass(code)[0], r"\b(STL|LDL)\b")
    assert registers <= 168


@every(("operator", "size"), itertools.product(OPERATORS, [(1, "float16"), (1001, "bfloat16"), (131071, "float32")]))
def test_any_number_of_columns_without_spills(operator, size):
    _, stack, code = compiled(operator, chosen(operator, *size, aligned=False), size[1])
    assert stack == 0
    assert count(sass(code)[0], r"STG\.E(\.U16)? "), "the ends of a row are stored one by one"


@every(("operator", "columns"), itertools.product(OPERATORS, (1048576, 1000001)))
def test_rows_beyond_the_registers_of_a_cluster_are_read_anew(operator, columns):
    # Sixteen vectors of weights in registers before the reductions would be all that a thread has: they come late.
    config = RowTileConfig(columns, 4, 16, 1024, 1024, "l1", aligned=columns % 4 == 0)
    registers, stack, _ = compiled(operator, config, "float32")
    assert registers <= 64
    # What 512 warps say of their parts of a row is 16 slots of three values a thread, once a row of a million.
    assert stack <= (352 if "layernorm" in operator else 0)


def test_what_is_read_and_written():
    asked = drawn(itertools.product(OPERATORS, ("registers", "l1", "shared")), __name__, "read and written")
    codes = [compiled(operator, RowTileConfig(4096, 2, 1, 256, 256, keep))[2] for operator, keep in asked]
    for (operator, keep), text in zip(asked, sass(*codes), strict=True):
        where = (operator, keep)
        row, written, weights = (2 * count for count in OPERATORS[operator])
        reads = {"registers": row, "l1": 2 * row, "shared": 0}[keep]
        assert count(text, r"LDG\.E\S*\.128") == reads + weights, where
        assert count(text, r"LDGSTS\.E\S*\.128") == (row if keep == "shared" else 0), where
        assert count(text, r"STG\.E\S*\.128") == written, where
        assert count(text, r"LDG\.E") == reads + weights, f"{where}: nothing is read in smaller pieces"


def test_there_is_one_exchange_between_warps_and_one_between_ctas():
    warps = [compiled(operator, RowTileConfig(4096, 2, 1, 256, 256))[2] for operator in OPERATORS]
    ctas = [compiled(operator, RowTileConfig(65536, 2, 8, 256, 256))[2] for operator in OPERATORS]
    listings = sass(*warps, *ctas)
    further = [1 + 2 * (operator == "layernorm") for operator in OPERATORS]  # where its mean is far from 0
    assert [count(text, r"BAR\.SYNC") for text in listings[: len(warps)]] == further
    assert [count(text, r"\bSTAS\b") for text in listings[len(warps) :]] == [1] * len(OPERATORS)


def test_a_matrix_that_ends_in_a_vector_is_read_element_by_element_there():
    config = replace(choose_few(32767, 4, aligned=False), alike=True)
    (text,) = sass(_host.cubin(_host.Build("softmax.Softmax", config, ("float32",) * 2)))
    assert count(text, r"LDG\.E\S*\.128") == config.vectors_per_thread, "the assembler joins them"


@every("rest", [2, 4, 6])
def test_no_vector_of_a_row_is_requested_behind_the_use_of_another(rest):
    x = "float16"
    build = next(_plans.norm(2800 + rest, (x, x, x, "", x, "", "", ""), True, 1e-5, _layouts.HOPPER, False, dense=True))
    (text,) = sass(_host.cubin(build))
    requests = list(re.finditer(r"LDG\.E\S*\.128", text))
    assert len(requests) == build.config.vectors_per_thread
    assert requests[-1].start() < re.search(r"\bHADD2\.F32\b", text).start(), "the assembler lets the last one wait"


def test_weights_of_either_dtype():
    config = RowTileConfig(4096, 2, 1, 256, 256, "shared")
    built = [compiled("rmsnorm", config, weight=weight) for weight in ("bfloat16", "float32")]
    assert [stack for _, stack, _ in built] == [0, 0]
    pieces = [count(text, r"LDG\.E\S*\.128") for text in sass(*(code for *_, code in built))]
    assert pieces == [config.vectors_per_thread, 2 * config.vectors_per_thread]
    (text,) = sass(compiled("rmsnorm", RowTileConfig(4096, 4, 1, 512, 512, "shared"), "float32", "bfloat16")[2])
    assert count(text, r"LDG\.E\.64") == 2, "narrower ones are halves of vectors"


@over(
    ("config", "order"),
    [
        (RowTileConfig(4096, 2, 1, 256, 256), (4, 0)),
        (RowTileConfig(8192, 2, 1, 512, 512), (2, 2)),  # `wants_late_weights`
    ],
)
def test_weights_are_asked_for_before_the_exchange_or_behind_it(config, order):
    (text,) = sass(compiled("rmsnorm", config)[2])
    assert tuple(count(part, r"LDG\.E\S*\.128") for part in text.split("BAR.SYNC")) == order


@over(
    ("rows", "layout", "grid", "block", "cluster"),
    [
        (1, (1000, 2, 1, 128, 64), [1, 1, 1], [128, 1, 1], None),  # half of the only CTA has a row
        (6, (1000, 2, 1, 128, 64), [3, 1, 1], [128, 1, 1], None),
        (7, (1000, 2, 1, 128, 64), [4, 1, 1], [128, 1, 1], None),
        (7, (131072, 2, 8, 352, 352, "shared"), [7, 8, 1], [352, 1, 1], [1, 8, 1]),
    ],
)
def test_every_row_has_threads(rows, layout, grid, block, cluster):
    given = {}
    launch_rows(types.SimpleNamespace(launch=given.update), RowTileConfig(*layout), rows, "stream")
    assert given == {"grid": grid, "block": block, "cluster": cluster, "stream": "stream", "use_pdl": True}


@over(("threads", "stages", "couriers"), [(512, 7, 6), (896, 7, 4), (512, 1, 2), (960, 0, 2)])
def test_ctas_that_wait_for_one_another_are_on_the_gpu_at_once(threads, stages, couriers):
    given = {}
    config = SplitTileConfig(1048576, 4, 132, threads, stages)
    launch_split(types.SimpleNamespace(launch=given.update), config, "stream")
    grid, block = [132, 1, 1], [threads + 32 * couriers, 1, 1]
    assert given == {"grid": grid, "block": block, "cooperative": True, "stream": "stream", "use_pdl": True}


def test_a_launch_that_overlaps_with_the_one_before_waits_for_it(monkeypatch):
    from cutlass.cutlass_dsl import cutlass as dsl

    x, given = "float32", []
    softmax = {"softmax": (4096, ""), "cluster": (65536, ""), "ring": (1048576, "split"), "single": (1048576, 1)}
    softmax["read_twice"] = (10**8, "")
    builds = {
        **{name: _plans.softmax(columns, x, x, _layouts.HOPPER, True, few) for name, (columns, few) in softmax.items()},
        "backward": _plans.softmax_backward(4096, x, x, _layouts.HOPPER, True),
        "narrower": _plans.softmax_backward(4096, x, "bfloat16", _layouts.HOPPER, True),
        "norm": _plans.norm(4096, (x, x, x, "", x, "", "", ""), True, 1e-5, _layouts.HOPPER, True),
    }
    launch = dsl.KernelLauncher.launch
    monkeypatch.setattr(dsl.KernelLauncher, "launch", lambda self, **how: given.append(how) or launch(self, **how))
    kernels = drawn(builds, __name__, "overlaps")
    codes = [_host.cubin(next(builds[kernel])) for kernel in kernels]
    for kernel, how, text in zip(kernels, given, sass(*codes), strict=True):
        touched = re.findall(r"\b(PREEXIT|ACQBULK|LDG|LDGSTS|UBLKCP|STG)\b", text)
        assert how["use_pdl"], kernel
        assert touched[:2] == ["PREEXIT", "ACQBULK"], f"{kernel}: before memory is touched"
        assert how.get("cluster") == ([1, 16, 1] if kernel == "cluster" else None), kernel
        assert how.get("cooperative", False) == (kernel in ("ring", "single", "read_twice")), kernel


@over(("layer", "weight", "mean", "reason"), [(False, "float32", "float32", "no mean"), (True, "int8", "", "int8")])
def test_what_no_kernel_computes_is_refused(layer, weight, mean, reason):
    build = norm(RowTileConfig(4096, 4, 1, 256, 256), layer, "float32", weight, "", "", "float32", "", "", mean)
    with pytest.raises(Exception, match=reason):
        _host.cubin(build)


@every(
    ("columns", "dtype", "layer", "ahead"),
    [
        (8192, "float32", False, 6),  # in registers
        (4096, "float32", False, 0),  # 512 threads a row
        (8192, "bfloat16", True, 2),
        (32000, "bfloat16", True, 1),  # 512 threads of 64 registers
        (8193, "bfloat16", True, 1),  # rows that may not start alike
        (131072, "bfloat16", True, 4),  # in shared memory
        (131072, "float32", False, 4),
        (1048576, "float32", True, 2),  # read twice
        (8193, "bfloat16", False, 3),  # rows that start anywhere, in registers
        (17033, "bfloat16", False, 3),  # the same, in shared memory
        (150003, "float16", False, 4),
        (262145, "bfloat16", True, 2),
        (400001, "float32", False, 4),
    ],
)
def test_weights_are_late_where_early_ones_would_cost_ctas(columns, dtype, layer, ahead):
    from impls.cute.kernels.norm import weights_ahead

    dtypes = (dtype, dtype, dtype * layer, "", dtype, "", "", "")
    builds = _plans.norm(columns, dtypes, layer, 1e-5, _layouts.HOPPER, columns % 8 == 0)
    build = next(build for build in builds if build.kernel == "norm.Norm")
    assert weights_ahead(build.config, layer) == ahead


LONGEST = [*_layouts.HELD, (768, 4), (768, 9)]  # (threads, vectors) of rows, and of 16- and 32-bit ones whose exponentials stay


@every(("dtype", "aligned", "held"), itertools.product(("bfloat16", "float32"), (True, False), LONGEST))
def test_the_longest_rows_of_crews_stay_in_registers(dtype, aligned, held):
    columns = (44 * math.prod(held) * 16 - 132 * (not aligned)) // _plans.ITEM_BYTES[dtype]
    build = next(_plans.softmax(columns, dtype, dtype, _layouts.HOPPER, aligned, 3))
    assert (build.config.threads, build.config.vectors_per_thread) == held
    (used,) = cubin.resources(_host.cubin(build))
    assert used.stack_bytes == 0
    assert used.registers * build.config.cta_threads <= 65536
