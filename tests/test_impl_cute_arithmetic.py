"""The arithmetic of impls/cute's kernels, on a CPU: results as small as the output's dtype holds, wherever in the row they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
import emulated_cute  # noqa: E402

from impls.cute import _plans  # noqa: E402
from softbench.check import compare  # noqa: E402
from softbench.model import Case  # noqa: E402

DTYPES = [("bfloat16", "bfloat16"), ("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16")]


def layout(columns: int, dtype: str, rows: int = 4096):
    """The table's layout."""
    item, gpu = _plans.ITEM_BYTES[dtype], _plans.HOPPER
    few = _plans.few(rows, columns, item, gpu)
    return next(_plans.softmax(columns, dtype, dtype, gpu, True, few)).config


def softmax(x, out_dtype: str, config, online: bool = True):
    """The kernel's y of each row of x."""
    with emulated_cute.family(config.cluster * config.threads_per_row) as family:
        kernel = family("kernels.softmax").Softmax(config, online=online).kernel
        rows = []
        for row in x.float().numpy():
            y = emulated_cute.matrix(out_dtype, row * float("nan"))
            kernel(emulated_cute.matrix(str(x.dtype).removeprefix("torch."), row), y)
            rows.append(torch.from_numpy(y.values))
        return torch.stack(rows).to(getattr(torch, out_dtype))


def verdict(x, out_dtype: str, y) -> str:
    dtype = str(x.dtype).removeprefix("torch.")
    return compare(Case("softmax", tuple(x.shape), dtype, out_dtype), (x,), y).reason


def peaks(columns: int, dtype: str):
    """Rows that are one value below 0, but for a peak of 0: in a warp each, down to where nothing is left."""
    x = -torch.linspace(40, 110, 71)[:, None].expand(71, columns).contiguous()
    x[torch.arange(71), torch.arange(71) * (columns - 1) // 70] = 0
    return x.to(getattr(torch, dtype))


def steps(columns: int, dtype: str):
    """Rows of segments, each with normals around a height of its own, in odd rows with one of -inf; a slope; a slope back."""
    generator = torch.Generator().manual_seed(columns)
    width = max(8, columns // 16)
    height = -120 * torch.rand(48, -(-columns // width), generator=generator)
    height[torch.arange(48), torch.randint(height.shape[1], (48,), generator=generator)] = 0
    height[1::2, 1] = float("-inf")
    x = height.repeat_interleave(width, 1)[:, :columns] + torch.randn(48, columns, generator=generator)
    slope = -120 / columns * torch.arange(columns)
    return torch.cat([x, slope[None], slope.flip(0)[None], 8 * (slope // 8)[None]]).to(getattr(torch, dtype))


@pytest.mark.parametrize(("dtype", "out_dtype"), DTYPES)
@pytest.mark.parametrize("draw", [peaks, steps])
@pytest.mark.parametrize(
    ("columns", "rows"),
    [(256, 4096), (1024, 4096), (4096, 4096), (16384, 4096), (65536, 16)],
    ids=["warp", "warps", "many_warps", "shared", "few"],
)
def test_what_lies_far_below_the_peak_is_not_lost(columns, rows, draw, dtype, out_dtype):
    config, x = layout(columns, dtype, rows), draw(columns, dtype)
    x = x[:: max(1, columns // 1024)]
    assert not verdict(x, out_dtype, softmax(x, out_dtype, config))


@pytest.mark.parametrize("keep", ["registers", "shared"])
def test_two_exchanges_lose_nothing_either(keep):
    config, x = replace(layout(1024, "bfloat16"), keep=keep), peaks(1024, "bfloat16")
    assert not verdict(x, "bfloat16", softmax(x, "bfloat16", config, online=False))
