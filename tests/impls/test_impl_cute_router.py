"""The router of impls/cute: layouts, and the kernel on a CPU, thread by thread."""

import itertools
from dataclasses import replace

import pytest
from support.settled import every

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
from support import emulated_threads as emulated
from support.bundled import known  # noqa: F401
from support.emulated_memory import INT32, Layout, Pointer, Tensor, tensor, values

from impls.cute import _host, _layouts, router
from impls.cute.htile.topk import choose_topk
from softbench.measure import cubin
from softbench.measure.check import compare
from softbench.model import Case


def test_every_column_has_one_place():
    for columns, k, size in itertools.product((*range(1, 131), 200, 255, 384, 512, 1000, 1023, 1024), (1, 2, 6, 10, 32), (2, 4)):
        if k > columns:
            continue
        config = choose_topk(columns, size, k, "sm_90")
        places = [config.column(i, lane) for i in range(config.each) for lane in range(config.lanes)]
        assert len(set(places)) == len(places)
        assert set(range(columns)) <= set(places)
        assert config.candidates >= min(columns, k + k // 2)
        assert config.slots == config.each if not config.groups else config.groups * config.lanes >= k
        assert columns * size % config.bytes == 0 == 32 % config.lanes
    for columns, k, place, why in ((1025, 8, 0, "no layout"), (8, 9, 0, "no layout"), (8, 2, 1, "do not start")):
        with pytest.raises(ValueError, match=why):
            choose_topk(columns, 4, k, "sm_90", place)


def test_the_layouts_that_were_fastest():
    asked = ((8, 2, 2), (16, 2, 2), (64, 2, 8), (64, 4, 8), (64, 2, 4), (256, 2, 8), (256, 4, 8), (512, 4, 10), (512, 2, 32))
    found = [choose_topk(*each, "sm_90") for each in asked]
    assert [c.lanes for c in found] == [1, 2, 4, 4, 4, 8, 16, 32, 16]
    assert [c.groups for c in found] == [0, 2, 2, 2, 4, 1, 1, 1, 2]
    assert choose_topk(512, 4, 32, "sm_90").threads == 32


def drawn(rows, columns):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns)) * 3


def given(config, dtype):
    """Rows: drawn, rising, steep, mostly -inf, with infinity; then, one by one: equal, three values, NaN, too many equal, -inf."""
    columns, column = config.columns, torch.arange(config.columns)
    x = drawn(10, columns)
    x[1], x[2] = column - 9.0, 512 - 8.0 * column
    x[3, column % 5 > 0] = x[9] = -torch.inf
    x[4, -1] = torch.inf
    x[5], x[6] = -7.5, x[6].round().clamp(-1, 1) + 0.0  # no -0
    x[7, columns // 2], x[7, 0] = torch.nan, -torch.nan
    x[8, : config.candidates + 3] = 20.0
    return x.to(getattr(torch, dtype))


def computed(config, x, renormalised, **changes):
    rows, source = len(x), tensor(x.float(), str(x.dtype)[6:])
    weight = tensor(np.full((rows, config.k), np.nan))
    expert = Tensor(Pointer([-1] * (rows * config.k), 0, INT32), Layout((rows, config.k), (config.k, 1)))
    with emulated.family() as family:
        module = family("kernels.topk")
        vars(module).update(changes)
        kernel = module.SoftmaxTopk(config, config.k, renormalised)
        for cta in range(-(-rows // config.rows)):
            emulated.Cluster(1, config.threads, cta, 0, True).run(lambda: kernel.kernel(source, weight, expert))
    return torch.from_numpy(values(weight)).float(), torch.from_numpy(values(expert)).int()


ASKED = [
    *(("bfloat16", 8, 2), ("float32", 27, 17), ("bfloat16", 64, 10), ("float16", 77, 6), ("float32", 96, 1), ("bfloat16", 128, 4)),
    *(("float32", 160, 6), ("float32", 512, 10), ("float32", 512, 32), ("bfloat16", 1000, 32)),
]


def of(dtype, columns, k):
    return replace(choose_topk(columns, 4 if dtype == "float32" else 2, k, "sm_90"), threads=32)


@every(("dtype", "columns", "k"), ASKED)
def test_the_threads_of_the_kernel(dtype, columns, k):
    config = of(dtype, columns, k)
    x, renormalised = given(config, dtype), columns % 3 % 2
    case = Case("softmax_topk", tuple(x.shape), dtype, dtype, params=(("k", k), ("renormalised", renormalised)))
    weight, expert = computed(config, x, renormalised)
    assert expert.equal(x.float().nan_to_num(torch.nan).sort(descending=True, stable=True).indices[:, :k].int())
    assert compare(case, (x,), (weight, expert)).reason == ""


def test_candidates_of_drawn_rows_fit():
    for dtype, columns, k in ASKED[2:]:
        computed(of(dtype, columns, k), drawn(2, columns).to(getattr(torch, dtype)), 1, choose_one_by_one=None)


@pytest.mark.parametrize(("dtype", "columns", "k"), [("bfloat16", 512, 32), ("float16", 512, 10), ("float32", 128, 8)])
def test_a_bound_that_too_many_reach_is_raised(dtype, columns, k):
    config, x = of(dtype, columns, k), drawn(2, columns)
    for lane, number in itertools.product(range(config.lanes), range(config.each)):
        group, column = (lane * config.groups + number // 2 % config.groups) * 2 + number % 2, config.column(number, lane)
        x[0, column] = column / columns + (2 if group < k - 1 else -2)
    x = x.to(getattr(torch, dtype))
    assert (x[0] > 0).sum() > config.candidates
    _, expert = computed(config, x, 1, choose_one_by_one=None)
    assert expert.equal(x.float().sort(descending=True, stable=True).indices[:, :k].int())


def test_the_kernels_as_they_are_compiled():
    for (columns, k), dtype in itertools.product(((8, 2), (64, 8), (512, 32)), ("bfloat16", "float32")):
        case = Case("softmax_topk", (1, columns), dtype, dtype, params=(("k", k), ("renormalised", 1)))
        found = cubin.resources(_host.cubin(router.of_case(case, _layouts.HOPPER)))[0]
        assert found.stack_bytes == 0
        assert found.registers <= 64
