"""Cases of a GPU's size on a CPU: cut to what a CPU times in seconds, as the header says, and whole if an option asks for it."""

from dataclasses import replace

import pytest
from support.cards import H200
from support.grids import over

from softbench import resources
from softbench.cases import matrix, shrinking
from softbench.measure import device
from softbench.model import Case

pytest_plugins = ["pytester"]


@over(
    "shape, fitted",
    [
        ((32768, 1024), (256, 1024)),
        ((4096, 50257), (5, 50257)),
        ((4, 2**20), (1, 2**20)),
        ((256, 1024), (256, 1024)),
        ((16, 32, 1024, 64), (1, 4, 1024, 64)),
        ((2, 32, 8192, 64), (1, 1, 4096, 64)),
    ],
)
def test_rows_are_cut_and_columns_are_not(shape, fitted):
    case = Case("softmax", shape, "float16", "float16")
    assert shrinking.fit(case).shape == fitted
    assert shrinking.fit(replace(case, timed=False)).shape == shape


def test_the_profile_cpu_is_not_cut():
    cases = matrix.load(resources.bundled_shapes()).profile("cpu")
    assert [shrinking.fit(case) for case in cases] == list(cases)
    assert max(case.elements for case in cases) == shrinking.MOST_ELEMENTS == 256 * 1024


@pytest.mark.parametrize(
    ("arguments", "cards", "shape", "count"),
    [((), (), "32x8192", 9), (("--softbench-full-size",), (), "8192x8192", 13), ((), (H200,), "8192x8192", 13)],
)
def test_the_ids_say_what_is_run_and_the_header_what_was_cut(pytester, monkeypatch, arguments, cards, shape, count):
    monkeypatch.setattr(device, "gpus", lambda: cards)
    command = ("--softbench", "--softbench-profile=published", "--collect-only", "-k", "torch_eager")
    lines = pytester.runpytest_inprocess("-p", "softbench.plugin", *command, *arguments).outlines
    assert any(f"softmax-float16-{shape}>" in line for line in lines)
    (said,) = [line for line in lines if line.startswith(f"softbench: {count} cases, ")]
    told = "; for a CPU 13 cases cut to 262144 elements (--softbench-full-size does not)"
    assert (told in said) is (count == 9)
