"""Attention in Triton: the kernel in Triton's interpreter against the operator, and its cubins, without a GPU."""

import itertools

import pytest
from support.interpreted import ends_well, faulty, interpret, is_wrong
from support.paths import ROOT
from support.settled import every

from softbench import Unsupported
from softbench.measure import cubin
from softbench.measure.worker.loading import load
from softbench.model import Case

pytest.importorskip("triton")
FILE = ROOT / "impls" / "triton" / "attention.py"

KERNEL = """
factory = load(Path(sys.argv[1]), "triton_attention")

def right(shape, layout="contiguous", distribution="normal", tile="64x64", dtypes=("float16", "bfloat16")):
    for operator in ("attention", "attention_causal"):
        for dtype in dtypes:
            case = Case(operator, shape, dtype, dtype, layout, distribution, timed=False)
            reason = check(case, factory(case, tile), "cpu", 1).reason
            assert not reason, (case.id, reason)
"""


LENGTHS = """
right((1, 2, 130, 64), "keys-200")
right((1, 2, 130, 64), "keys-63", tile="128x128")
right((2, 1, 1, 128), "keys-129")
right((1, 1, 64, 64))
right((0, 2, 4, 64))
"""
VALUES = """
for word in ("growing", "peaked", "segments_inf", "prefix_inf_1", "shifted_1e4"):
    right((1, 2, 20, 64), "keys-321", word, dtypes=("float16",))
for layout in ("transposed", "offset-1+padded-3", "strided-2"):
    right((1, 2, 20, 64), layout, dtypes=("bfloat16",))
"""


@every("body", [LENGTHS, VALUES])
def test_the_kernel_is_right(body):
    ends_well(interpret(KERNEL + body, FILE))


FAULTS = {
    "earlier tiles are not rescaled": ("acc * factor[:, None]", "acc"),
    "the sum is not rescaled": ("total * factor", "total"),
    "no guard for tiles of -inf": ('tl.where(risen == float("-inf"), 0.0, risen)', "risen"),
    "the mask is aligned to the top left": ("tl.minimum(row + (keys - queries), keys - 1)", "tl.minimum(row, keys - 1)"),
}


@every(("old", "new"), FAULTS.values())
def test_faults_are_found(tmp_path, old, new):
    faulty(tmp_path, FILE.with_name("_flash.py"), old, new)
    is_wrong(interpret(KERNEL + VALUES, tmp_path / "attention.py"))


def case(operator, shape):
    return Case(operator, shape, "float16", "float16")


@every(("dimension", "tile"), itertools.product((64, 128), ("64x64", "128x64", "128x128")))
def test_it_compiles_for_hopper_without_spills(dimension, tile):
    ((name, code),) = load(FILE, "triton_attention").softbench_cubins(case("attention_causal", (2, 4, 1024, dimension)), tile)
    (found,) = cubin.resources(code)
    assert name == found.name == "flash"
    assert found.stack_bytes == 0


def test_refusals_and_empty_cases():
    factory = load(FILE, "triton_attention")
    with pytest.raises(Unsupported, match="head dimension of 96"):
        factory(case("attention", (1, 1, 4, 96)), "64x64")
    assert list(factory.softbench_cubins(case("attention", (0, 1, 4, 64)), "64x64")) == []
