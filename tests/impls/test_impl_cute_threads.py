"""Norms of impls/cute with heads and dtypes that differ, and masks, thread by thread on a CPU: `support.emulated_threads`."""

import itertools

import pytest
from support.grids import over
from support.settled import every

from impls.cute.htile.config import RowTileConfig

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
from support import emulated_threads as emulated  # noqa: E402

from softbench.cases import operators  # noqa: E402
from softbench.measure.check import compare  # noqa: E402
from softbench.measure.worker import loading  # noqa: E402
from softbench.model import Case  # noqa: E402

LAYOUTS = {
    "rows of a warp": RowTileConfig(64, 2, 1, 32, 8),
    "warps": RowTileConfig(600, 2, 1, 64, 64),
    "in shared memory": RowTileConfig(520, 2, 1, 64, 64, "shared"),
    "float32 in shared memory": RowTileConfig(264, 4, 1, 64, 64, "shared"),
    "read twice": RowTileConfig(328, 4, 1, 64, 64, "l1"),
    "a cluster": RowTileConfig(712, 2, 2, 32, 32, "shared"),
    "anywhere": RowTileConfig(77, 4, 1, 32, 32, aligned=False),
    "anywhere in shared memory": RowTileConfig(131, 2, 1, 32, 32, "shared", aligned=False),
}
OTHER = {2: "float32", 4: "float16"}


@over("layer", [False, True])
@over("layout", list(LAYOUTS))
def test_a_norm_of_mixed_dtypes_with_heads(layout, layer):
    config, heads = LAYOUTS[layout], 3
    columns, rows, own = config.columns, 3 * config.rows, {2: "float16", 4: "float32"}[config.itemsize]
    other, pad = OTHER[config.itemsize], 8 if config.aligned else 1
    generator = torch.Generator().manual_seed(len(layout))
    x, residual = (torch.randn(rows, columns, generator=generator).half() + 0.5 for _ in range(2))
    weight, bias = (torch.randn(heads, columns, generator=generator).half() for _ in range(2))
    given = [
        emulated.tensor(x, own, pad),
        emulated.tensor(weight, other),
        emulated.tensor(bias, own, 8),
        emulated.tensor(residual, other, pad),
    ]
    empty = torch.full((rows, columns), torch.nan), torch.full((rows,), torch.nan)
    made = [
        emulated.tensor(empty[0], own),
        emulated.tensor(empty[0], other),
        emulated.tensor(empty[1]),
        emulated.tensor(empty[1]),
    ]
    with emulated.family() as family:
        kernel = family("kernels.norm").Norm(config, layer, 1e-5, heads=True)
        for cta in range(-(-rows // config.rows)):
            cluster = emulated.Cluster(config.cluster, config.threads, cta, 0, True)
            cluster.run(lambda: kernel.kernel(*given, *made[:3], made[3] if layer else None))
    t = x.double() + residual.double()
    mean = t.mean(1, keepdim=True) if layer else torch.zeros(rows, 1)
    rstd = ((t - mean).square().mean(1, keepdim=True) + 1e-5).rsqrt()
    y = (t - mean) * rstd * weight.repeat(rows // heads, 1) + bias.repeat(rows // heads, 1)
    right = (y, t, rstd[:, 0], *([mean[:, 0]] if layer else []))
    for got, expected in zip(made, right, strict=False):
        most = 1e-5 if got.element_type.width == 32 else 2e-3
        np.testing.assert_allclose(emulated.values(got), expected.numpy(), rtol=most, atol=most)


MASKS = [
    ("masked_softmax", {}),
    ("biased_softmax", {}),
]


@every(("layout", "mask"), itertools.product(LAYOUTS, MASKS))
def test_what_is_seen_adds_up_to_one(layout, mask):
    """Rows that see nothing, nothing but -inf, infinity or NaN too; NaN is where nothing is seen."""
    (operator, more), config, rows = mask, LAYOUTS[layout], 5
    declared, params = loading.operator(operators.bundled()[operator]), {"scale": 0.125} | more
    operators.use([declared])
    dtype, pad = {2: "bfloat16", 4: "float32"}[config.itemsize], 8 if config.aligned else 1
    case = Case(operator, (rows, config.columns), dtype, dtype, params=tuple(params.items()))
    x, *given = declared.make_inputs(case, "cpu", 1)
    x[1, 40], x[2], x[3, 5], x[4, 60] = torch.inf, -torch.inf, torch.nan, torch.nan
    if more:
        given[0][:] = torch.tensor([-1, 45, config.columns - 1, 32, 59])
    else:
        given[0][0] = given[0][4, 60] = given[0][2, ::2] = -torch.inf if operator == "biased_softmax" else 0
    kinds = ["uint8" if t.dtype is torch.bool else str(t.dtype).removeprefix("torch.") for t in (x, *given)]
    tensors = [
        emulated.tensor(t.float(), kind, pad * (t.dim() > 1)) for t, kind in zip((x, *given), kinds, strict=True)
    ]
    y = emulated.tensor(np.full(x.shape, np.nan), dtype)
    with emulated.family() as family:
        kernel = getattr(family("kernels.masks"), "CausalSoftmax" if more else "MaskedSoftmax")(config, **params)
        for cta in range(-(-rows // config.rows)):
            cluster = emulated.Cluster(config.cluster, config.threads, cta, 0, True)
            cluster.run(lambda: kernel.kernel(*tensors, y))
    found = torch.from_numpy(emulated.values(y)).to(x.dtype)
    assert not compare(case, (x, *given), found).reason
    assert compare(case, (x, *given), torch.where(found == 0, 1e-3, found)).reason
    operators.use(())
