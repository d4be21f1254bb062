"""softmax of rows that lie side by side in impls/cute: layouts, and the kernel on a CPU, thread by thread."""

import itertools

import pytest
from support.settled import every

pytest.importorskip("torch")
pytest.importorskip("numpy")
import numpy as np
import torch
from support import emulated_threads as emulated
from support.emulated_memory import tensor, values

from impls.cute import _host, _layouts, _plans
from impls.cute.htile.side import SideTileConfig, choose_side
from softbench.cases import operators
from softbench.measure import cubin
from softbench.measure.check import compare
from softbench.model import Case

# Vectors are of 16 bytes, or of a seventh number.
LAYOUTS = [
    SideTileConfig(24, 5, 2, 4, 1, 32),  # a warp
    SideTileConfig(32, 16, 4, 8, 1, 64),
    SideTileConfig(40, 37, 2, 4, 2, 64),  # a cluster
    SideTileConfig(37, 19, 2, 32, 1, 64, 2),
    SideTileConfig(22, 21, 2, 8, 2, 32, 4),
    SideTileConfig(9, 13, 4, 16, 1, 64, 4),
    SideTileConfig(12, 61, 4, 2, 4, 32),
    SideTileConfig(19, 37, 2, 16, 2, 32, 2),
    SideTileConfig(10, 19, 2, 8, 1, 64, 4),
    SideTileConfig(5, 21, 4, 8, 1, 32, 4),
]


def test_every_element_has_one_thread():
    widths, lengths = (2, 19, 64, 75, 150, 1000, 16384), (1, 19, 150, 577, 4096)
    for columns, length, size, place in itertools.product(widths, lengths, (2, 4), (0, 4, 8)):
        config = choose_side(columns, length, size, "sm_90", place)
        assert config.strips * config.width >= columns > (config.strips - 1) * config.width
        assert (config.cluster - 1) * config.steps < length <= config.cluster * config.steps
        assert config.turns * config.stride >= config.steps
        assert config.width <= config.threads, "one thread per row merges it"
        assert (columns * size | place) % config.bytes == 0
        assert config.turns * config.bytes <= 256
    for columns, length, place, why in ((64, 40_000, 0, "more than a cluster"), (1, 9, 0, "no layout"), (8, 9, 2, "do not start")):
        with pytest.raises(ValueError, match=why):
            choose_side(columns, length, 4, "sm_90", place)


def computed(config, x, dtype):
    slabs = x.shape[0]
    given = tensor(x.mT.reshape(-1, config.columns).float(), str(x.dtype)[6:])
    made = tensor(np.full(given.shape, np.nan), dtype)
    with emulated.family() as family:
        kernel = family("kernels.side").Softmax(config)
        for cta in range(slabs * config.strips):
            emulated.Cluster(config.cluster, config.threads, cta, 0, True).run(lambda: kernel.kernel(given, made))
    return torch.from_numpy(values(made)).to(getattr(torch, dtype)).view(slabs, config.length, config.columns).mT


@every(("config", "values"), itertools.product(LAYOUTS, ("normal", "peaked", "drawn_1017", "drawn_1123", "prefix_inf_1")))
def test_the_threads_of_the_kernel(config, values):
    """One of the rows is all -inf, one has NaN."""
    dtype, out = ("float32", "float32") if config.itemsize == 4 else ("bfloat16", "float32" if values == "peaked" else "bfloat16")
    case = Case("softmax", (2, config.columns, config.length), dtype, out, layout="transposed", distribution=values, timed=False)
    (x,) = operators.get("softmax").make_inputs(case, "cpu", 3)
    x[0, 1], x[1, 2, 0] = -torch.inf, torch.nan
    assert compare(case, (x,), (computed(config, x, out),)).reason == ""


@every(
    ("columns", "length", "dtype"),
    [(64, 4096, "bfloat16"), (131072, 19, "float32"), (76, 577, "bfloat16"), (75, 4096, "float32"), (150, 1024, "float16")],
)
def test_the_kernels_as_they_are_compiled(columns, length, dtype):
    """512 threads fit on a multiprocessor, and kernels keep next to nothing in memory."""
    (found,) = cubin.resources(_host.cubin(_plans.side(columns, (dtype, dtype), length, _layouts.HOPPER)[0]))
    assert found.stack_bytes <= 32
    assert found.registers * 512 <= 65536
