"""The arithmetic of impls/cute's kernels, on a CPU: results as small as the output's dtype holds, wherever in the row they are."""

from dataclasses import replace

import pytest
from support.grids import over

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
from support import depths, emulated_cute  # noqa: E402

from impls.cute import _plans  # noqa: E402
from softbench.cases import operators  # noqa: E402
from softbench.measure.check import compare  # noqa: E402
from softbench.measure.worker import loading  # noqa: E402
from softbench.model import Case  # noqa: E402

DTYPES = [("bfloat16", "bfloat16"), ("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16")]


def layout(columns: int, dtype: str, rows: int = 4096):
    """The table's layout."""
    item, gpu = _plans.ITEM_BYTES[dtype], _plans.HOPPER
    few = _plans.few(rows, columns, item, gpu)
    return next(_plans.softmax(columns, dtype, dtype, gpu, True, few)).config


def softmax(x, out_dtype: str, config, **flags: bool):
    """The kernel's y of each row of x."""
    with emulated_cute.family(config.cluster * config.threads_per_row) as family:
        kernel = family("kernels.softmax").Softmax(config, **flags).kernel
        rows = []
        for row in x.float().numpy():
            y = emulated_cute.matrix(out_dtype, row * float("nan"))
            kernel(emulated_cute.matrix(str(x.dtype).removeprefix("torch."), row), y)
            rows.append(torch.from_numpy(y.values))
        return torch.stack(rows).to(getattr(torch, out_dtype))


def verdict(x, out_dtype: str, y, operator: str = "softmax") -> str:
    dtype = str(x.dtype).removeprefix("torch.")
    return compare(Case(operator, tuple(x.shape), dtype, out_dtype), (x,), y).reason


@over(("dtype", "out_dtype"), DTYPES)
@over(
    ("columns", "rows"),
    [(256, 4096), (1024, 4096), (4096, 4096), (16384, 4096), (65536, 16)],
)
def test_what_lies_far_below_the_peak_is_not_lost(columns, rows, dtype, out_dtype):
    config, x = layout(columns, dtype, rows), depths.rows(columns, dtype, 120 if columns < 16384 else 24)
    assert not verdict(x, out_dtype, softmax(x, out_dtype, config))


@pytest.mark.parametrize("keep", ["registers", "shared"])
def test_two_exchanges_lose_nothing_either(keep):
    config, x = replace(layout(1024, "bfloat16"), keep=keep), depths.rows(1024, "bfloat16", 120)
    assert not verdict(x, "bfloat16", softmax(x, "bfloat16", config, online=False))


@over(("columns", "keep"), [(256, ""), (4096, "registers"), (4096, "shared"), (65536, "")])
def test_logarithms_are_right_down_to_masks(columns, keep):
    """A row each of normals, of a peak, with masks, and one that sees nothing."""
    operators.use([loading.operator(operators.bundled()["log_softmax"])])
    for dtype in ("bfloat16", "float32"):
        found = layout(columns, dtype)
        x = torch.randn(5, columns, generator=torch.Generator().manual_seed(1))
        x[1, 7], x[2, 1:], x[3], x[4] = 40, -torch.inf, -torch.inf, 1e4 + x[4]
        x = x.to(getattr(torch, dtype))
        y = softmax(x, dtype, replace(found, keep=keep) if keep else found, log=True)
        assert not verdict(x, dtype, y, "log_softmax")
    assert verdict(x, dtype, y + 1e-4 * (x > 1), "log_softmax")
    operators.use(())
