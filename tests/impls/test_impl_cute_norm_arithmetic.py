"""The arithmetic of impls/cute's norms and gradient, on a CPU: parts that differ, and values that are far from 0 or from 1."""

from dataclasses import replace

import pytest
from support.grids import over

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
from support import depths, emulated_cute  # noqa: E402

from impls.cute import _plans  # noqa: E402
from softbench.cases import operators  # noqa: E402
from softbench.cases.operators import get  # noqa: E402
from softbench.measure.check import compare  # noqa: E402
from softbench.measure.worker import loading  # noqa: E402
from softbench.model import Case  # noqa: E402

NORMS = ("rmsnorm", "layernorm", "add_rmsnorm", "add_layernorm")


def computed(case, inputs):
    """By the table's layout, of one row a thread."""
    (build, *_) = _plans.of_case(case, _plans.HOPPER, aligned=True)
    config, (module, name) = replace(build.config, rows_per_thread=1), build.kernel.split(".")
    with emulated_cute.family(config.cluster * config.threads_per_row) as family:
        kernel = getattr(family(f"kernels.{module}"), name)(config, **dict(build.flags)).kernel
        return emulated_cute.computed(case, inputs, get(case.operator).output_specs(case), kernel)


@over("dtype", ["float32", "bfloat16"])
@over("operator", NORMS)
@over("offset", [0.0, 1e2, 1e4, 1e5])
def test_parts_of_a_row_that_differ(operator, dtype, offset):
    """Eight stretches around heights of their own, all of them far from 0: a mean is off, and must not move the deviation."""
    case = Case(operator, (24, 1024), dtype, dtype)
    inputs = get(operator).make_inputs(case, "cpu", 1)
    generator = torch.Generator().manual_seed(3)
    heights = 60 * torch.randn(24, 8, generator=generator).repeat_interleave(128, 1) + offset
    inputs[0].copy_(heights + torch.randn(24, 1024, generator=generator))
    assert not compare(case, inputs, computed(case, inputs)).reason


@over("columns", [256, 4096, 65536])
def test_the_gradient_of_a_logarithm_is_right_down_to_masks(columns):
    operators.use([loading.operator(operators.bundled()["log_softmax_backward"])])
    for dtype in ("bfloat16", "float32"):
        for word in ("normal", "y-padding_inf", "dy-peaked"):
            case = Case("log_softmax_backward", (3, columns), dtype, dtype, distribution=word.removeprefix("dy-"))
            inputs = get(case.operator).make_inputs(case, "cpu", 1)
            dx = computed(case, inputs)
            assert not compare(case, inputs, dx).reason, case.id
    assert compare(case, inputs, (dx[0] + 1e-3,)).reason
    operators.use(())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("columns", [256, 1024, 16384])
def test_a_gradient_has_the_smallest_results(columns, dtype):
    case = Case("softmax_backward", (12, columns), dtype, dtype)
    _, y = inputs = get(case.operator).make_inputs(case, "cpu", 1)
    y.copy_(torch.softmax(depths.rows(columns, "float32", 12), 1))
    assert ((y > 0) & (y < torch.finfo(y.dtype).smallest_normal)).any()
    dx = computed(case, inputs)
    assert ((dx[0] != 0) & (dx[0].abs() < torch.finfo(y.dtype).smallest_normal)).any()
    assert not compare(case, inputs, dx).reason
