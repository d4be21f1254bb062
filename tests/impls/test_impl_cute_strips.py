"""The gradients of norms in impls/cute: layouts of strips of columns, and the arithmetic of the kernel on a CPU."""

import itertools
import re

import pytest
from support.sass import sass
from support.settled import drawn, every

pytest.importorskip("torch")
pytest.importorskip("numpy")
import numpy as np
import torch
from support import emulated_threads as emulated
from support.emulated_memory import tensor, values

from impls.cute import _host, _layouts, _norm_backward, _plans
from impls.cute._norm_backward import gradients
from impls.cute.htile.config import SHARED_BYTES, ceil_div
from impls.cute.htile.strips import RESERVED_BYTES, StripConfig, choose_strip, vector_of
from softbench.measure import cubin

SIZES = (1, 3, 13, 64, 127, 1000, 1001, 4096, 8191, 8192, 16384, 50257, 131072, 262144)


def layouts():
    for columns, sizes, sums, largest in itertools.product(SIZES, ((2, 2), (4, 4), (2, 4), (4, 2, 2)), (0, 1, 2), (16, 8)):
        vector = vector_of(sizes, columns)
        if columns <= 8 * 512 * 32:
            yield choose_strip(columns, vector, sizes, "sm_90", sums, largest), sizes, sums


def test_every_column_has_one_thread():
    for config, sizes, sums in layouts():
        assert config.columns == config.vectors * config.vector
        assert (config.cluster - 1) * config.cta_vectors < config.vectors <= config.cluster * config.cta_vectors
        assert config.turns * config.threads_per_row >= config.cta_vectors
        assert config.rows == 1 or config.cluster == 1
        assert config.threads % 32 == 0
        assert config.ring_bytes(sum(sizes)) * config.resident <= SHARED_BYTES["sm_90"] - RESERVED_BYTES
        assert config.stages == 1 or (sums and config.vector * min(sizes) >= 4)


def test_a_vector_starts_on_its_own_size_in_every_row():
    assert vector_of((2, 2), 4096) == 8
    assert vector_of((2, 4), 4096) == 4  # 16 bytes of the wider one
    assert vector_of((2, 2), 1002 | 4096) == 2
    assert vector_of((4,), 0) == 4
    for columns, size in itertools.product(range(1, 100), (2, 4)):
        vector = vector_of((size,), columns)
        assert columns % vector == 0
        assert vector * size == 16 or (columns // vector) % 2


def test_the_groups_are_as_many_for_each_head_and_have_all_rows():
    for (config, _, _), rows, heads in itertools.product(layouts(), (1, 7, 100, 100_000), (1, 4, 32)):
        groups = config.groups(rows * heads, heads, config.at_once(132))
        assert groups % heads == 0
        assert groups <= max(heads, {4: 31, 8: 15, 16: 7}.get(config.cluster, 132 // config.cluster) * config.resident)
        assert groups // heads <= ceil_div(rows, config.rows), "no group is without rows"


LAYOUTS = [
    StripConfig(24, 8, 1, 64, 2, 3),  # rows of a CTA
    StripConfig(13, 1, 1, 32, 4),  # an odd row
    StripConfig(72, 4, 1, 32, 32, 2),  # a warp
    StripConfig(1000, 8, 1, 64, 64, 4),  # warps
    StripConfig(260, 4, 1, 128, 64, 3),  # rows of warps
    StripConfig(330, 2, 4, 32, 32, 3),  # a cluster
    StripConfig(131, 1, 2, 64, 64),  # without a ring
]


def run(config, tensors, layer, heads, eps, blocks, late):
    """All CTAs of the kernel, one cluster after another."""
    with emulated.family() as family:
        kernel = family("kernels.norm_backward").NormBackward(config, layer, heads > 1, eps)
        for cta in range(blocks * heads):
            cluster = emulated.Cluster(config.cluster, config.threads, cta, blocks * heads, late)
            cluster.run(lambda: kernel.kernel(*tensors, heads))


@every(("config", "kind"), itertools.product(LAYOUTS, ["layer", "rms", "rounded"]))
def test_the_threads_of_the_kernel(config, kind):
    """LayerNorm of two heads, with copies that arrive late; RMSNorm with a gradient of the sum, with copies that arrive at once;
    LayerNorm of rows that a rounded sum changed: their mean, and by six orders of magnitude their deviation."""
    late, layer, eps = kind == "layer", kind != "rms", 1e-5 if kind == "rounded" else None
    heads, blocks, wide = 2 if late else 1, 2, not late
    rows, columns = heads * (2 * config.rows * (config.stages + 1) - 1), config.columns
    generator = torch.Generator().manual_seed(columns)
    dy, t, dtotal = (torch.randn(rows, columns, generator=generator).half() for _ in range(3))
    weight = torch.randn(heads, columns, generator=generator)
    mean = t.double().mean(1) if layer else None
    centre = torch.zeros(()) if mean is None else mean[:, None]
    rstd = ((t.double() - centre).square().mean(1) + 1e-5).rsqrt()
    scale = rstd[:, None]
    if eps:
        mean, rstd = mean + 0.3, torch.full_like(rstd, eps**-0.5)
    per_row = weight.repeat(rows // heads, 1).double()
    of_total, bias = dtotal if wide else None, torch.zeros(rows, columns)
    right = gradients(dy.double(), t.double(), per_row, bias, of_total, centre, scale, layer)
    made = [torch.full((rows, columns), torch.nan) for _ in range(2)] + [torch.full((blocks, heads, columns), torch.nan)] * 2
    row = "float16"
    given = [
        tensor(dy, row, pad=config.vector), tensor(t, row),
        tensor(weight if heads > 1 else weight[0]), tensor(dtotal, row) if wide else None,
        tensor(rstd), None if mean is None else tensor(mean),
        *(tensor(x, kind) for x, kind in zip(made, (row, "float32", "float32", "float32"), strict=True)),
    ]  # fmt: skip
    run(config, given, layer, heads, eps, blocks, late)
    dx, dresidual, dweight, dbias = (values(x) for x in given[6:])
    np.testing.assert_allclose(dresidual, right[0].numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dx, right[0].numpy(), rtol=2e-3, atol=2e-3)
    for got, terms in ((dweight, right[1]), (dbias, right[2])):
        np.testing.assert_allclose(got.sum(0), terms.view(-1, heads, columns).sum(0).numpy(), rtol=1e-4, atol=1e-4)


def test_the_kernels_as_they_are_compiled():
    """No value is kept in memory but in the longest rows without a ring, and as many CTAs fit as the layout counts on."""
    pytest.importorskip("cutlass")
    mixed = {"bfloat16": "float32", "float32": "bfloat16"}
    for columns, dtype, layer, adds in drawn(
        itertools.product((13, 64, 1001, 4096, 16384, 262144), mixed, (False, True), (False, True)), __name__, "compiled"
    ):
        other, row = mixed[dtype] if adds else dtype, "float32"
        statistics, outputs = (row, row if layer else ""), (dtype, other if adds else "", row, row if layer else "")
        dtypes = (dtype, other, "bfloat16", other if adds else "", *statistics, *outputs)
        vector = vector_of((4 if "float32" in (dtype, other) else 2,), columns)
        eps = 1e-5 if layer and adds else None
        build = next(_norm_backward.builds(columns, dtypes, layer, adds, _layouts.HOPPER, vector, eps))
        code = _host.cubin(build)
        (used,), (text,), config = cubin.resources(code), sass(code), build.config
        assert -(-used.registers // 8) * 8 * config.threads * config.resident <= 64 * 1024, build
        assert used.stack_bytes <= (700 if columns == 262144 else 32 if config.stages == 1 else 0), build
        assert re.findall(r"\b(PREEXIT|ACQBULK|LDG|LDGSTS|STG)\b", text)[:2] == ["PREEXIT", "ACQBULK"]
        assert len(re.findall(r"\bSTAS\b", text)) == 2 * (config.cluster > 1), "one exchange for the first row, one for each other"
        assert bool(re.search(r"\bLDGSTS\b", text)) == (config.stages > 1)


HALF, SINGLE = "bfloat16", "float32"


@every(
    ("columns", "dtypes"),
    [
        (128, (HALF, HALF, HALF, "", HALF, "", "", "")),
        (77, (HALF, SINGLE, HALF, "", HALF, "", "", "")),
        (16384, (HALF, SINGLE, HALF, SINGLE, HALF, SINGLE, "", "")),
        (1001, (SINGLE, HALF, HALF, HALF, SINGLE, HALF, SINGLE, SINGLE)),
    ],
)
def test_norms_of_heads_and_other_dtypes_as_they_are_compiled(columns, dtypes):
    pytest.importorskip("cutlass")
    aligned = columns % 8 == 0
    build = next(_plans.norm(columns, dtypes, True, 1e-5, _layouts.HOPPER, aligned, False, not aligned, True))
    (used,) = cubin.resources(_host.cubin(build))
    assert (build.kernel, used.stack_bytes) == ("norm.Norm", 0)
