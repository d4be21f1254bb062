"""The kernels of impls/cute/kernels, compiled for sm_90a: their launches; of those beside softmax what they read and write."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
import types
from dataclasses import replace

import pytest
from support.paths import ROOT
from support.sass import sass
from support.settled import drawn, every

from softbench.measure import cubin

FOLDER = ROOT / "impls" / "cute"
PACKAGE = "_test_impl_cute_kernels"
ITEM_BYTES = {"BFloat16": 2, "Float16": 2, "Float32": 4}
OPERATORS = ["backward", "rmsnorm", "layernorm", "add_layernorm"]
INPUTS = {"backward": 2, "rmsnorm": 1, "layernorm": 1, "add_layernorm": 2}
OUTPUTS = {"backward": 1, "rmsnorm": 1, "layernorm": 1, "add_layernorm": 2}
WEIGHTS = {"backward": 0, "rmsnorm": 1, "layernorm": 2, "add_layernorm": 2}


@pytest.fixture(scope="module")
def family():
    """impls/cute as a package under a private name, as a worker loads it."""
    pytest.importorskip("cutlass")
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(FOLDER)]
    sys.modules[PACKAGE] = package
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in [n for n in sys.modules if n.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def compiled(family, tmp_path_factory):
    """(operator, config, dtype, align of the weights, their dtype) -> (registers, stack bytes, cubin)."""
    folder = tmp_path_factory.mktemp("cubins")

    def build(operator, config, dtype="BFloat16", align=16, weight="", **flags):
        import cutlass.cute as cute

        kernel = _kernel(family, operator, config, flags)
        tensors = _tensors(family, operator, config, dtype, align, weight or dtype)
        stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
        options = f"--enable-tvm-ffi --gpu-arch sm_90a --keep-cubin --dump-dir {folder}"
        code = bytes(cute.compile(kernel, *tensors, stream, options=options).__cubin__)
        (used,) = cubin.resources(code)
        return used.registers, used.stack_bytes, code

    return build


def _kernel(family, operator, config, flags):
    if operator == "backward":
        return family("kernels.softmax_backward").SoftmaxBackward(config, **flags)
    return family("kernels.norm").Norm(config, operator != "rmsnorm", 1e-5, **flags)


def _tensors(family, operator, config, dtype, align, weight):
    import cutlass
    import cutlass.cute as cute

    host, rows = family("_host"), cute.sym_int()

    def matrix():
        return host.fake_matrix(getattr(cutlass, dtype), rows, config.columns, config.aligned)

    def vector():
        return host.fake_vector(getattr(cutlass, weight), config.columns, align)

    def statistic():
        return host.fake_vector(cutlass.Float32, rows, 4)

    if operator == "backward":
        return matrix(), matrix(), matrix()
    bias = None if operator == "rmsnorm" else vector()
    if operator != "add_layernorm":
        return matrix(), vector(), bias, None, matrix(), None, None, None
    return matrix(), vector(), bias, matrix(), matrix(), matrix(), statistic(), statistic()


def count(sass: str, pattern: str) -> int:
    return len(re.findall(pattern, sass))


def chosen(family, operator, columns, itemsize, aligned=True):
    """The table's layout."""
    return family("htile.layouts").choose(columns, itemsize, "sm_90", aligned, INPUTS[operator], WEIGHTS[operator])


def test_a_norm_of_two_matrices_into_two_spills_nothing(family, compiled):
    sizes = (1024, 4096, 16384, 65536, 131072, 262144)
    asked = drawn(itertools.product(sizes, ("BFloat16", "Float32")), __name__, "two matrices")
    configs = [chosen(family, "add_layernorm", columns, ITEM_BYTES[dtype]) for columns, dtype in asked]
    built = [compiled("add_layernorm", config, dtype) for config, (_, dtype) in zip(configs, asked, strict=True)]
    for which, (registers, stack, _), text in zip(asked, built, sass(*(code for *_, code in built)), strict=True):
        assert stack == 0, which
        assert not count(text, r"\b(STL|LDL)\b"), which
        assert registers <= 168, which


def test_any_number_of_columns_without_spills(family, compiled):
    sizes = [(1, 2, "Float16"), (1001, 2, "BFloat16"), (131071, 4, "Float32")]
    asked = drawn(itertools.product(OPERATORS, sizes), __name__, "any number of columns")
    built = []
    for operator, (columns, itemsize, dtype) in asked:
        config = chosen(family, operator, columns, itemsize, aligned=False)
        built.append(compiled(operator, config, dtype, align=itemsize))
    for which, (_, stack, _), text in zip(asked, built, sass(*(code for *_, code in built)), strict=True):
        assert stack == 0, which
        assert count(text, r"STG\.E(\.U16)? "), f"{which}: the ends of a row are stored one by one"


@every(("operator", "columns"), itertools.product(OPERATORS, (1048576, 1000001)))
def test_rows_beyond_the_registers_of_a_cluster_are_read_anew(family, compiled, operator, columns):
    aligned = columns % 4 == 0
    config = family("htile.config").RowTileConfig(columns, 4, 16, 1024, 1024, "l1", aligned)
    # Sixteen vectors of weights in registers before the reductions would be all that a thread has.
    flags = {} if operator == "backward" else {"delayed": True}
    registers, stack, _ = compiled(operator, config, "Float32", align=16 if aligned else 4, **flags)
    assert registers <= 64
    # What 512 warps say of their parts of a row is 16 slots of three values a thread, once a row of a million.
    assert stack <= (288 if "layernorm" in operator else 0)


def test_what_is_read_and_written(family, compiled):
    asked = drawn(itertools.product(OPERATORS, ("registers", "l1", "shared")), __name__, "read and written")
    config = family("htile.config").RowTileConfig
    codes = [compiled(operator, config(4096, 2, 1, 256, 256, keep))[2] for operator, keep in asked]
    for (operator, keep), text in zip(asked, sass(*codes), strict=True):
        where = (operator, keep)
        row, weights = 2 * INPUTS[operator], 2 * WEIGHTS[operator]
        reads = {"registers": row, "l1": 2 * row, "shared": 0}[keep]
        assert count(text, r"LDG\.E\S*\.128") == reads + weights, where
        assert count(text, r"LDGSTS\.E\S*\.128") == (row if keep == "shared" else 0), where
        assert count(text, r"STG\.E\S*\.128") == 2 * OUTPUTS[operator], where
        assert count(text, r"LDG\.E") == reads + weights, f"{where}: nothing is read in smaller pieces"


def test_there_is_one_exchange_between_warps_and_one_between_ctas(family, compiled):
    config = family("htile.config").RowTileConfig
    warps = [compiled(operator, config(4096, 2, 1, 256, 256))[2] for operator in OPERATORS]
    ctas = [compiled(operator, config(65536, 2, 8, 256, 256))[2] for operator in OPERATORS]
    listings = sass(*warps, *ctas)
    assert [count(text, r"BAR\.SYNC") for text in listings[: len(warps)]] == [1] * len(OPERATORS)
    assert [count(text, r"\bSTAS\b") for text in listings[len(warps) :]] == [1] * len(OPERATORS)


def test_columns_outside_the_row_are_left_out_of_the_variance(family, compiled):
    config = family("htile.config").RowTileConfig
    even, uneven = sass(*(compiled("layernorm", config(n, 2, 1, 128, 128))[2] for n in (2048, 1544)))
    outside = "FSEL|SEL|@!?P[0-6] FFMA|@!?P[0-6] FADD"
    assert count(uneven, outside) >= count(even, outside) + 8, "0 - mean would count"


def test_weights_of_any_dtype_and_alignment(family, compiled):
    config = family("htile.config").RowTileConfig(4096, 2, 1, 256, 256, "shared")
    asked = [("BFloat16", 16), ("Float32", 16), ("BFloat16", 2)]
    built = [compiled("rmsnorm", config, align=align, weight=weight) for weight, align in asked]
    for (weight, align), (_, stack, _), text in zip(asked, built, sass(*(code for *_, code in built)), strict=True):
        pieces = {"BFloat16": 1, "Float32": 2}[weight] * config.vectors_per_thread
        assert stack == 0, (weight, align)
        assert count(text, r"LDG\.E\S*\.128") == pieces, (weight, align)
        assert count(text, r"LDG\.E\.U16") == (config.columns // 256 if align == 2 else 0), (weight, align)


def test_weights_are_asked_for_before_the_exchange_or_behind_it(family, compiled):
    config = family("htile.config").RowTileConfig(4096, 2, 1, 256, 256)

    def order(**flags):
        (text,) = sass(compiled("rmsnorm", config, **flags)[2])
        before, behind = text.split("BAR.SYNC")
        return count(before, r"LDG\.E\S*\.128"), count(behind, r"LDG\.E\S*\.128")

    assert order() == (4, 0)
    assert order(delayed=True) == (2, 2)


@pytest.mark.parametrize(
    ("rows", "layout", "grid", "block", "cluster"),
    [
        (1, (1000, 2, 1, 128, 64), [1, 1, 1], [128, 1, 1], None),  # half of the only CTA has a row
        (6, (1000, 2, 1, 128, 64), [3, 1, 1], [128, 1, 1], None),
        (7, (1000, 2, 1, 128, 64), [4, 1, 1], [128, 1, 1], None),
        (7, (131072, 2, 8, 352, 352, "shared"), [7, 8, 1], [352, 1, 1], [1, 8, 1]),
    ],
)
def test_every_row_has_threads(family, rows, layout, grid, block, cluster):
    config, given = family("htile.config").RowTileConfig(*layout), {}
    kernel = types.SimpleNamespace(launch=given.update)
    family("htile.launch").launch_rows(kernel, config, rows, "stream", True)
    assert given == {"grid": grid, "block": block, "cluster": cluster, "stream": "stream", "use_pdl": True}


@pytest.mark.parametrize(("threads", "stages", "couriers"), [(512, 7, 4), (512, 1, 2), (960, 0, 2)])
def test_ctas_that_wait_for_one_another_are_on_the_gpu_at_once(family, threads, stages, couriers):
    config, given = family("htile.config").SplitTileConfig(1048576, 4, 132, threads, stages), {}
    kernel = types.SimpleNamespace(launch=given.update)
    family("htile.launch").launch_split(kernel, config, "stream", False)
    assert given["cooperative"]
    assert given["grid"] == [132, 1, 1]
    assert given["block"] == [threads + 32 * couriers, 1, 1]
    assert given["stream"] == "stream"
    assert not given["use_pdl"]


@pytest.fixture
def launched(family, monkeypatch):
    """(kernel, pdl) -> (what its one launch is given, cubin), of the table's first build."""
    pytest.importorskip("tvm_ffi")
    from cutlass.cutlass_dsl import cutlass as dsl

    plans, x = family("_plans"), "float32"
    builds = {
        "softmax": plans.softmax(4096, x, x, plans.HOPPER, True),
        "cluster": plans.softmax(65536, x, x, plans.HOPPER, True),
        "ring": plans.softmax(1048576, x, x, plans.HOPPER, True, "split"),
        "single": plans.softmax(1048576, x, x, plans.HOPPER, True, "single"),
        "read_twice": plans.softmax(10**8, x, x, plans.HOPPER, True),
        "backward": plans.softmax_backward(4096, x, plans.HOPPER, True),
        "norm": plans.norm(4096, (x, x, x, "", x, "", "", ""), True, 1e-5, plans.HOPPER, True),
    }
    launches, launch = [], dsl.KernelLauncher.launch

    def recording(self, **given):
        launches.append(given)
        return launch(self, **given)

    def trace(kernel, pdl):
        build = next(builds[kernel])
        flags = {**dict(build.flags), "pdl": pdl}
        launches.clear()
        code = family("_host").cubin(replace(build, flags=tuple(flags.items())))
        (given,) = launches
        return given, code

    monkeypatch.setattr(dsl.KernelLauncher, "launch", recording)
    return trace


def test_a_launch_that_overlaps_with_the_one_before_waits_for_it(launched):
    kernels = drawn(["softmax", "cluster", "ring", "single", "read_twice", "backward", "norm"], __name__, "overlaps")
    given, codes = zip(*(launched(kernel, pdl=True) for kernel in kernels), strict=True)
    for kernel, launch, text in zip(kernels, given, sass(*codes), strict=True):
        touched = re.findall(r"\b(PREEXIT|ACQBULK|LDG|LDGSTS|UBLKCP|STG)\b", text)
        assert launch["use_pdl"], kernel
        assert touched[:2] == ["PREEXIT", "ACQBULK"], f"{kernel}: before memory is touched"
        assert launch.get("cluster") == ([1, 16, 1] if kernel == "cluster" else None), kernel
        assert launch.get("cooperative", False) == (kernel in ("ring", "single", "read_twice")), kernel


def test_a_launch_that_does_not_overlap_waits_for_nothing(launched):
    kernels = drawn(["softmax", "ring", "single", "read_twice", "backward", "norm"], __name__, "waits for nothing")
    given, codes = zip(*(launched(kernel, pdl=False) for kernel in kernels), strict=True)
    assert not [kernel for kernel, launch in zip(kernels, given, strict=True) if launch["use_pdl"]]
    assert not [kernel for kernel, text in zip(kernels, sass(*codes), strict=True) if count(text, "PREEXIT|ACQBULK")]


def test_what_no_kernel_computes_is_refused(family):
    import cutlass.cute as cute

    config = family("htile.config").RowTileConfig(4096, 4, 1, 256, 256)
    x, weight, *_ = _tensors(family, "rmsnorm", config, "Float32", 16, "Float32")
    narrow = _tensors(family, "rmsnorm", config, "Float32", 16, "BFloat16")[1]
    rows = family("_host").fake_vector(weight.element_type, cute.sym_int(), 4)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    for layer, given, mean, reason in (
        (False, weight, rows, "no mean"),
        (True, narrow, None, "beside rows of 4 bytes"),
    ):
        kernel = family("kernels.norm").Norm(config, layer, 1e-5)
        with pytest.raises(Exception, match=reason):
            cute.compile(kernel, x, given, None, None, x, None, None, mean, stream, options="--gpu-arch sm_90a")
