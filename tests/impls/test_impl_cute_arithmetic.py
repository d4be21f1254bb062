"""The arithmetic of impls/cute's kernels, on a CPU: results as small as the output's dtype holds, wherever in the row they are."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.grids import over
from support.settled import every

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
from support import depths, emulated_cute  # noqa: E402

from impls.cute import _plans, losses  # noqa: E402
from impls.cute.htile.layouts import choose, choose_apart  # noqa: E402
from softbench.cases import operators  # noqa: E402
from softbench.measure.check import compare  # noqa: E402
from softbench.measure.worker import loading  # noqa: E402
from softbench.model import Case  # noqa: E402

DTYPES = [("bfloat16", "bfloat16"), ("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16")]


def layout(columns, dtype, rows=4096):
    """The table's layout."""
    item, gpu = _plans.ITEM_BYTES[dtype], _plans.HOPPER
    few = _plans.few(rows, columns, item, gpu)
    return next(_plans.softmax(columns, dtype, dtype, gpu, True, few)).config


def softmax(x, out_dtype, config, **flags):
    """The kernel's y of each row of x."""
    with emulated_cute.family(config.cluster * config.threads_per_row) as family:
        kernel = family("kernels.softmax").Softmax(config, **flags).kernel
        rows = []
        for row in x.float().numpy():
            y = emulated_cute.matrix(out_dtype, row * float("nan"))
            kernel(emulated_cute.matrix(str(x.dtype).removeprefix("torch."), row), y)
            rows.append(torch.from_numpy(y.values))
        return torch.stack(rows).to(getattr(torch, out_dtype))


def verdict(x, out_dtype, y, operator="softmax"):
    dtype = str(x.dtype).removeprefix("torch.")
    return compare(Case(operator, tuple(x.shape), dtype, out_dtype), (x,), y).reason


@over(("dtype", "out_dtype"), DTYPES)
@over(("columns", "rows"), [(256, 4096), (1024, 4096), (4096, 4096), (16384, 4096), (65536, 16)])
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


class Target:
    """In the place of the losses' own, whose threads differ by addresses."""

    def __init__(self, _, target, ignore):
        self.is_ignored, self.column = target.values[0] == ignore, max(int(target.values[0]), 0)

    def value(self, vector):
        return np.float32(vector.values[0])

    def read(self, matrix):
        return np.float32(matrix.values[self.column])

    def write(self, vector, value):
        vector.values[0] = 0 if self.is_ignored else np.ravel(value)[0]

    def patch(self, matrix, value):
        if not self.is_ignored:
            matrix.values[self.column] = np.ravel(value)[0]

    def counted(self, values):
        return values * 0 if self.is_ignored else values


def cross_entropy(case, config, inputs):
    """The outputs of the kernel, row by row."""
    name, made = case.operator.removeprefix("cross_entropy"), []
    with emulated_cute.family(config.cluster * config.threads_per_row, {"Target": Target}) as family:
        module = family("kernels.losses")
        family("kernels.softmax")
        kernel = module.CrossEntropyBackward if name == "_backward" else module.CrossEntropy
        for x, *given in zip(*inputs, strict=True):
            rows = [SimpleNamespace(values=[value.item()]) for value in given]
            rows += [] if name == "_backward" else [SimpleNamespace(values=[0.0])]
            dx = emulated_cute.matrix(case.out_dtype, np.full(case.columns, np.nan))
            kernel(config, **dict(case.params)).kernel(
                emulated_cute.matrix(case.dtype, x.float().numpy()), *rows, dx if name else None
            )
            made.append((torch.tensor(rows[-1].values[0]).float(), torch.from_numpy(dx.values)))
    loss, dlogits = map(torch.stack, zip(*made, strict=True))
    dlogits = dlogits.to(getattr(torch, case.out_dtype))
    return (loss, dlogits) if name == "_both" else dlogits if name else loss


@every(
    ("operator", "params"),
    itertools.product(
        ("cross_entropy", "cross_entropy_backward", "cross_entropy_both"), ((-100, 0, 0), (0, 0.1, 1e-4))
    ),
)
def test_losses_are_right(operator, params):
    declared = loading.operator(operators.bundled()[operator])
    operators.use([declared])
    asked = [(1000, dtype, dtype, word) for dtype in ("bfloat16", "float32") for word in declared.hard]
    asked += [(1000, "float16", "float32", "normal"), (40, "bfloat16", "bfloat16", "nan_middle")]
    for columns, *words in (*asked, (16392, "bfloat16", "bfloat16", "normal")):
        named = tuple(zip(("ignore", "smoothing", "z"), params, strict=True))
        case = Case(operator, (8, columns), *words[:2], "contiguous", words[2], timed=False, params=named)
        config, inputs = losses.of_case(case, _plans.HOPPER, True)[0].config, declared.make_inputs(case, "cpu", 1)
        for keep in (config.keep, "registers" if config.apart else "shared"):
            reason = compare(case, inputs, cross_entropy(case, replace(config, keep=keep), inputs)).reason
            assert not reason, (case.id, keep, reason)
    operators.use(())


def test_one_thread_has_each_column():
    """As `rows.Partition`: vector number `turn` of each thread of a row, and these of a CTA, are neighbours."""
    for columns, size in ((1, 2), (1001, 4), (16392, 2), (50257, 4), (262144, 4)):
        for aligned, chosen in itertools.product({False, _plans.whole_vectors(columns, size)}, (choose, choose_apart)):
            config = chosen(columns, size, aligned=aligned)
            element = np.arange(columns + (0 if aligned else config.vector - 1))
            rank, thread = config.place(element)
            within = element // config.vector - rank * config.cta_vectors
            assert rank.max() < config.cluster
            assert 0 <= within.min() <= within.max() < config.vectors_per_thread * config.threads_per_row
            assert (within % config.threads_per_row == thread).all()
