"""The attention kernels of impls/cuda without a GPU: g++ and emulated tensor cores run them, cuobjdump reads their cubins."""

import functools
import importlib
import itertools
import re
import shutil
from fnmatch import fnmatchcase

import pytest
from support import emulated_cuda
from support.documents import ATTENTION, rows
from support.paths import ROOT
from support.sass import kernels, sass
from support.settled import every

from softbench.cases import matrix, registry
from softbench.contract import Unsupported
from softbench.measure.cubin import resources
from softbench.measure.worker.loading import load
from softbench.model import Case

torch = pytest.importorskip("torch")

from softbench.measure.check import check  # noqa: E402

FILE = ROOT / "impls" / "cuda" / "attention.py"
FACTORIES = {name: load(FILE, f"attention_{name}") for name in ("scalar", "staged", "fused")}
own = importlib.import_module(f"{FACTORIES['fused'].__module__.rpartition('.')[0]}._attention")
FORMS = {"scalar": own.SCALAR, "staged": own.STAGED, "fused": own.FUSED}
KERNELS = FILE.parent / "kernels"


def case(operator="attention", shape=(1, 2, 70, 64), dtype="float16", layout="contiguous", distribution="normal"):
    return Case(operator, tuple(shape), dtype, dtype, layout, distribution, timed=False)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The kernel of a form for a case, compiled once a module; an edit replaces text of a file of its sources."""

    @functools.cache
    def of(macros, edit):
        sources = tmp_path_factory.mktemp("sources")
        for path in KERNELS.glob("*.cu*"):
            shutil.copy(path, sources)
        if edit:
            name, old, new = edit
            text = (sources / name).read_text()
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
            (sources / name).write_text(text.replace(old, new))
        return emulated_cuda.Kernels(sources, own.SOURCE, dict(macros), tmp_path_factory.mktemp("kernels"))

    return lambda asked, form, edit=(): of((*form.macros(asked).items(), ("NO_LEVEL", "1")), edit)


@pytest.fixture
def reason(compiled, monkeypatch):
    """Why a form's outputs are wrong; "" where they are right."""
    monkeypatch.setattr(own._driver, "Launcher", emulated_cuda.Launcher)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)

    def of(name, asked, edit=()):
        form = FORMS[name]
        launch = own.launch_of(asked, form, (compiled(asked, form, edit), own.KERNEL), torch.device("cpu"))
        return check(asked, launch, "cpu", 1).reason

    return of


# Lengths below, at and over a tile; fewer keys than queries; one query; layouts that are copied, and that are not.
PLAIN = [
    case(operator, shape, dtype, layout)
    for operator, dtype in (("attention", "float16"), ("attention_causal", "bfloat16"))
    for *shape, layout in (
        (1, 1, 64, 64, "contiguous"),
        (2, 2, 70, 64, "keys-129"),
        (1, 2, 130, 64, "keys-63"),
        (1, 2, 1, 64, "keys-200"),
        (1, 1, 33, 128, "keys-65"),
        (1, 2, 40, 64, "offset-1+padded-3"),
        (1, 2, 40, 64, "offset-8+padded-8"),
        (1, 2, 40, 64, "transposed"),
    )
]
# Five tiles and a key more; of odd heads the first four may hold -inf alone.
FIVE_TILES = [
    case(operator, (1, 2, 17, 64), "bfloat16", "keys-321", word)
    for operator in ("attention", "attention_causal")
    for word in ("growing", "peaked", "equal", "padding_inf", "segments_inf", "prefix_inf_1", "prefix_inf_255")
]


@every(("name", "asked"), [*itertools.product(FORMS, PLAIN), *itertools.product(("staged", "fused"), FIVE_TILES)])
def test_every_form_is_right(reason, name, asked):
    assert not reason(name, asked)


@every("word", ["shifted_1e2", "shifted_-1e4", "growing"])
def test_scores_in_half_fail_where_it_is_declared_and_scores_in_registers_do_not(reason, word):
    asked = case(shape=(1, 2, 17, 64), layout="keys-200", distribution=word)
    assert not reason("fused", asked)
    assert reason("staged", asked)


def test_what_is_declared_is_scores_in_half_and_nothing_else():
    found = {v.implementation: v for v in registry.find([FILE.parent]) if v.path == str(FILE)}
    assert list(found) == ["attention_scalar", "attention_staged", "attention_fused"]
    assert not found["attention_fused"].known_failures
    cases = [c for name in ("attention", "hard-attention") for c in matrix.load(ROOT / "shapes.yaml").profile(name)]
    for name in ("attention_scalar", "attention_staged"):
        patterns = [failure.pattern for failure in found[name].known_failures]
        hit = {c for c in cases if any(fnmatchcase(c.id, pattern) for pattern in patterns)}
        growing = {c for c in cases if c.distribution == "growing" and c.dtype == "float16"}
        assert hit == growing | {c for c in cases if "shifted" in c.distribution}


# The faults of the document that the forms come from, and others that are easily made: each a small change of the sources.
FAULTS = [
    # What earlier tiles summed up is not rescaled when the maximum rises.
    ("fused", "attention.cu", "part[i] *= factor[i / 2];", "part[i] *= 1.0f;"),
    ("staged", "attention.cu", "part[i] *= factor[i / 2];", "part[i] *= 1.0f;"),
    ("fused", "softmax_tile.cuh", "sum[half] *= factor[half];", ""),  # nor is the sum
    # Warps share rows' maximum, sum and scores.
    ("staged", "softmax_tile.cuh", "reinterpret_cast<Strip*>(shared) + threadIdx.x / 32", "reinterpret_cast<Strip*>(shared)"),
    # The fragment's layout is guessed.
    ("fused", "attention.cu", "thread / 32 * 16 + thread % 32 / 4;", "thread / 32 * 16 + thread % 16 / 2;"),
    ("fused", "attention.cu", "if (tile + 2 >= count)", "if (false)"),  # the last tile is not padded
    ("fused", "attention.cu", "        wait_groups<1>();\n", ""),  # a tile is read before it is there
]


@every(("name", "file", "old", "new"), FAULTS)
def test_faults_are_found(reason, name, file, old, new):
    asked = case("attention_causal", (1, 1, 64, 64), "bfloat16", "keys-200", "growing")
    assert not reason(name, asked)
    assert reason(name, asked, (file, old, new))


def test_arguments_are_as_long_as_the_kernel_expects(compiled):
    assert compiled(case(), own.FUSED).compiled.arguments_bytes() == own.ARGUMENTS.size


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    return tmp_path_factory.mktemp("cubins")


@pytest.fixture
def cache(cubins, monkeypatch):
    """NVRTC is here; what one test compiles, the others of this file find in the cache."""
    pytest.importorskip("cuda.core")
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(cubins))


def code(name, asked=None):
    ((_, found),) = FACTORIES[name].softbench_cubins(asked or case())
    return found


def test_the_forms_fit_and_use_tensor_cores(cache):
    asked = [(name, case(dtype=dtype)) for name in FORMS for dtype in ("float16", "bfloat16")]
    asked += [(name, case(shape=(1, 2, 70, 128))) for name in FORMS]
    codes = [code(name, which) for name, which in asked]
    for (name, which), built, listing in zip(asked, codes, kernels(*codes), strict=True):
        where = f"{name} {which.id}"
        (taken,) = resources(built)
        ((kernel, text),) = listing.items()
        assert taken.name == kernel == "attention"
        assert taken.registers <= (128 if which.columns == 64 else 255), where
        assert taken.stack_bytes == 0, where
        assert re.findall(r"LDL|STL", text) == [], where
        if which.columns == 64:
            # Tensor cores for both products of a tile, 32 instructions each, but for P V of the scalar form.
            assert len(re.findall(r"HMMA\.16816", text)) == (32 if name == "scalar" else 64), where
            # Rows are read 16 bytes at a time and straight into shared memory: Q once, K and V before the loop and in it.
            assert len(re.findall(r"LDGSTS\S*\.128", text)) == 5 * 4, where


def test_the_fused_form_exchanges_maxima_and_sums_through_registers_alone(cache):
    (text,) = sass(code("fused"))
    # Two shuffles a maximum of two rows, and in the end two a sum; nothing is stored to shared memory but by copies.
    assert len(re.findall(r"SHFL\.BFLY", text)) == 8
    assert re.findall(r"\bSTS\b", text) == []


def test_blocks_fit_a_multiprocessor_of_hopper(cache):
    """Four of head dimension 64, two of 128; 228 KB of shared memory, of which a block takes 1 KB for the system."""
    for form in FORMS.values():
        for dimension, blocks in ((64, 4), (128, 2)):
            asked = case(shape=(1, 1, 64, dimension))
            (found,) = resources(own.cubin(asked, form, "sm_90a"))
            assert blocks * (form.shared_bytes(asked) + 1024) <= 228 * 1024
            assert blocks * own.THREADS * found.registers <= 65536


def test_the_page_says_what_the_cubins_take(cache):
    """Registers as the page's NVRTC gives them; another may take others, within the gates above."""
    same_compiler = f"NVRTC {'.'.join(map(str, own._nvrtc._compiler_version()))}" in ATTENTION
    table = ([cell.strip("`") for cell in row] for row in rows(ATTENTION, "form"))
    found = {(form.removeprefix("attention_"), int(dim)): tuple(map(int, more)) for form, dim, *more in table}
    assert found.keys() == {(name, dimension) for name in FORMS for dimension in (64, 128)}
    for (name, dimension), (registers, stack, shared, blocks) in found.items():
        asked = case(shape=(1, 1, 64, dimension))
        (kernel,) = resources(own.cubin(asked, FORMS[name], "sm_90a"))
        assert (stack, shared) == (kernel.stack_bytes, FORMS[name].shared_bytes(asked))
        assert registers == kernel.registers or not same_compiler
        allotted = -(-kernel.registers // 8) * 8
        assert blocks == min(65536 // (own.THREADS * allotted), 228 * 1024 // (shared + 1024))


def test_the_switch_is_all_that_tells_the_forms_apart():
    assert own.FUSED.macros(case()) == {**own.STAGED.macros(case()), "USE_FUSED_SOFTMAX": "1"}
    used = {path.name: len(re.findall(r"^#if.*USE_FUSED_SOFTMAX", path.read_text(), re.M)) for path in KERNELS.glob("*.cu*")}
    assert {name: count for name, count in used.items() if count} == {"softmax_tile.cuh": 1, "attention.cu": 1}


def test_an_environment_variable_goes_back_to_the_staged_form(cache, monkeypatch):
    fused, staged = code("fused"), code("staged")
    monkeypatch.setenv("USE_FUSED_SOFTMAX", "0")
    assert own.chosen() == own.STAGED
    assert code("fused") == staged != fused
    monkeypatch.setenv("USE_FUSED_SOFTMAX", "1")
    assert code("fused") == fused


def test_refusals():
    with pytest.raises(Unsupported, match="head dimension of 96"):
        own.cubin(case(shape=(1, 1, 4, 96)), own.FUSED, "sm_90a")
    with pytest.raises(Unsupported, match="more than the kernel numbers"):
        own.launch_of(case(shape=(2**20, 2**10, 65, 64)), own.FUSED, None, torch.device("cpu"))


def test_rows_are_copied_only_where_16_bytes_cannot_be_read():
    x = torch.zeros(2, 3, 10, 72, dtype=torch.float16)
    for view in (x[..., :64], x[:, :, 1:, 8:], x.transpose(1, 2)):
        assert own.aligned(view) is view
    odd = torch.zeros(2, 3, 10, 67, dtype=torch.float16)
    for view in (odd[..., :64], x[..., 1:65], x[..., ::2], x.transpose(2, 3)):
        copy = own.aligned(view)
        assert copy.is_contiguous()
        assert copy.data_ptr() % 16 == 0
