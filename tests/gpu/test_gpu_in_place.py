"""What overwrites its input is sealed and ranked, and nothing else is right."""

import pytest
from contests import BUNDLED, run
from support.in_place import KERNELS, known

from softbench.cases import registry
from softbench.measure import roof
from softbench.model import SEALED, Case

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("dtype", "shape"), [("bfloat16", (512, 32000)), ("float32", (16, 1024))])
def test_losses_whose_gradient_overwrites_the_logits(pool, dtype, shape):
    asked = Case("cross_entropy_in_place", shape, dtype, dtype, params=(("ignore", 0), ("smoothing", 0), ("z", 0)))
    ours = [v for v in BUNDLED if v.operator == asked.operator]
    found = run(pool, asked, ours, roofs={asked.operator: roof.variants("streams", "cuda")})
    assert {r.status.value for r in found} == {"PASSED"}
    assert {r.tier for r in found if r.variant.implementation in ("triton_family", "liger")} == {SEALED}


def test_a_timed_launch_that_overwrites_nothing(pool, tmp_path):
    known(tmp_path)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.py").write_text(KERNELS)
    kernels = registry.find([tmp_path / "kernels"])
    found = run(pool, Case("double", (256, 1024), "float32", "float32"), kernels)
    wrong = {r.variant.implementation: r.status.value for r in found if r.variant in kernels}
    assert wrong == {"right": "PASSED", "elsewhere": "INCORRECT", "unwritten": "INCORRECT"}
