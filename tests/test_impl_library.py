"""The library entrants where they run without a GPU, and what each refuses."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softbench import Unsupported
from softbench.model import Case
from softbench.registry import find
from softbench.worker.loading import load

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "impls" / "library"


def factory(name: str):
    return load(LIBRARY / f"{name}.py", name)


def case(*shape: int, dtype: str = "float32", out_dtype: str = "", layout: str = "contiguous") -> Case:
    return Case("softmax", shape, dtype, out_dtype or dtype, layout)


@pytest.mark.parametrize(
    ("shape", "dtype", "out_dtype"),
    [
        ((), "float32", "float32"),
        ((3, 33), "bfloat16", "bfloat16"),
        ((2, 3, 5), "float16", "float32"),
        ((0, 4), "float64", "float64"),
    ],
)
def test_eager_takes_any_rank_and_output_dtype(shape, dtype, out_dtype):
    x = torch.randn(shape).to(getattr(torch, dtype))
    y = factory("torch_eager")(case(*shape, dtype=dtype, out_dtype=out_dtype))(x)
    assert y.dtype is getattr(torch, out_dtype)
    torch.testing.assert_close(y.double(), torch.softmax(x.double(), -1), rtol=8e-3, atol=1e-7)


def test_host_copy_is_a_copy_of_any_view():
    copy = load(ROOT / "softbench" / "roof" / "host.py", "host_copy")
    x = torch.randn(4, 6).t()
    y = copy(Case("copy", (6, 4), "float32", "float32"))(x)
    assert torch.equal(x, y)
    assert y.is_contiguous()


COMPILED = """
import sys, torch
from pathlib import Path
from softbench.model import Case
from softbench.worker.loading import load
launch = load(Path(sys.argv[1]), "torch_compile")(Case("softmax", (4, 100), "float32", "float16"))
compiled = []
torch._dynamo.callback_handler.register_start_callback(compiled.append)
def right(x):
    y = launch(x)
    assert y.dtype is torch.float16
    torch.testing.assert_close(y.double(), torch.softmax(x.double(), -1), rtol=1e-3, atol=1e-7)
right(torch.randn(4, 100))
right(torch.randn(401)[1:].view(4, 100))
assert not compiled, "compiled again for the same shape or another storage offset"
right(torch.randn(4, 200)[:, ::2])
assert len(compiled) == 1, "a view compiles once, at the checked launch"
try:
    launch(torch.randn(5, 100))
except torch._dynamo.exc.FailOnRecompileLimitHit:
    sys.exit(0)
sys.exit("a third compilation was not refused")
"""


@pytest.mark.slow
def test_compile_happens_before_the_timing():
    """In a process of its own: it changes torch._dynamo's configuration, and its imports warn."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, str(LIBRARY / "torch_compile.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("liger", case(4, 65537), "65536"),
        ("liger", case(4, 64, out_dtype="float16"), "input's dtype"),
        ("liger", case(), "0-d"),
        ("liger", case(4, 0), "no columns"),
        ("quack", case(4, 8191), "vector of 4 float32 divides the 8191"),
        ("quack", case(4, 1004, dtype="bfloat16"), "vector of 8"),
        ("quack", case(4, 64, dtype="float64"), "float64"),
        ("quack", case(4, 64, dtype="float16", out_dtype="float32"), "input's dtype"),
        ("quack", case(2, 4, 64), "3-D"),
        ("quack", case(8, 64, layout="transposed"), "column stride"),
        ("quack", case(8, 64, layout="strided-2"), "column stride"),
        ("quack", case(8, 64, layout="offset-1+padded-4"), "16 bytes"),
        ("quack", case(8, 64, dtype="float16", layout="padded-4"), "16 bytes"),
    ],
)
def test_refusals_name_the_librarys_limit(name, asked, reason):
    with pytest.raises(Unsupported, match=reason):
        factory(name)(asked)


@pytest.fixture(scope="module")
def declared():
    return {variant.implementation: variant for variant in find([LIBRARY])}


def test_a_machine_without_a_gpu_does_not_interpret_liger(declared):
    assert set(declared) == {"liger", "quack", "torch_compile", "torch_eager"}
    assert not any("triton" in requirement for requirement in declared["liger"].requires)


def test_quacks_known_failures_are_the_cells_that_fail(declared):
    patterns = [failure.pattern for failure in declared["quack"].known_failures]

    def known(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    assert known("softmax-bfloat16-4096x151936")
    assert known("softmax-bfloat16-5x65544-check")
    assert known("softmax-float16-4096x4096-causal_inf")
    assert known("softmax-bfloat16-64x4096-prefix_inf_255")
    assert known("softmax-float32-4x1048576-check")
    assert not known("softmax-bfloat16-4096x65536")
    assert known("softmax-float16-5x65544-check")
    assert known("softmax-float32-64x4096-shifted_-1e4")
    assert not known("softmax-float32-5x65544-check")
    assert not known("softmax-float16-64x4096-shifted_1e2")
    assert not known("softmax-float16-64x4096-prefix_inf_257")
    assert not known("softmax-float32-4x1024-causal_inf")
    assert not known("softmax-float16-64x4096-padding_min")
