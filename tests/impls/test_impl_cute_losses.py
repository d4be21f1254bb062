"""Cross-entropy in impls/cute: its layouts, and on a CPU the threads of the kernel that reads a row once."""

import itertools
import random

import pytest
from support.settled import every

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
from support import emulated_threads as emulated
from support.bundled import known  # noqa: F401
from support.emulated_memory import tensor, values

from impls.cute import _layouts, losses, masks
from impls.cute.htile.losses import CTAS, StreamTileConfig, streamed_layouts
from softbench import Unsupported
from softbench.cases import operators
from softbench.measure.check import compare
from softbench.model import Case

PROCESSORS = _layouts.HOPPER.processors
STREAMED = [
    StreamTileConfig(1400, 2, 1, 64, 64, together=2),
    StreamTileConfig(8192, 2, 1, 64, 64, together=4),  # whole batches
    StreamTileConfig(8191, 2, 1, 64, 64, aligned=False, together=4),  # counted from a line
    StreamTileConfig(701, 4, 1, 64, 64, aligned=False, together=2),
    StreamTileConfig(1400, 2, 2, 32, 32, together=2),  # a cluster
    StreamTileConfig(2277, 2, 4, 32, 32, aligned=False, together=2),
    StreamTileConfig(264, 2, 1, 64, 16, together=4),  # several rows in a CTA
    StreamTileConfig(333, 2, 1, 64, 32, aligned=False, together=2),
    StreamTileConfig(77, 4, 1, 32, 8, aligned=False, together=4),
    *(StreamTileConfig(columns, 2, 1, 32, each, aligned=False, together=4) for columns, each in ((1, 1), (9, 1), (15, 2), (17, 2))),
]
PLAIN, SMOOTH = (
    (("ignore", ignore), ("smoothing", smoothing), ("z", z)) for ignore, smoothing, z in ((-100, 0, 0), (0, 0.1, 1e-4))
)


def fault(config, case):
    x, target = operators.get(case.operator).make_inputs(case, "cpu", 1)
    given = tensor(x.float(), case.dtype, 8 if config.aligned else 1), tensor(target, "int64")
    loss = tensor(np.full(case.rows, np.nan), "float32")
    with emulated.family() as family:
        kernel = family("kernels.streamed").CrossEntropy(config, **dict(case.params))
        emulated.launch(kernel.kernel, config, case.rows, *given, loss)
    return compare(case, (x, target), (torch.from_numpy(values(loss)).float(),)).reason


@every("config", STREAMED)
def test_a_row_that_is_read_once(config):
    for number, word in enumerate(operators.get("cross_entropy").hard):
        dtype = ("bfloat16", "float16")[number % 2] if config.itemsize == 2 else "float32"
        params = (PLAIN, SMOOTH)[(number + STREAMED.index(config)) % 2]
        assert not fault(config, Case("cross_entropy", (5, config.columns), dtype, dtype, "contiguous", word, False, params)), word


def drawn(count=400):
    rng = random.Random(7)
    for _ in range(count):
        yield int(2 ** rng.uniform(0, 17)), int(2 ** rng.uniform(0, 22)), rng.choice((2, 4))


def test_batches_are_whole_rows_and_nothing_twice():
    for rows, columns, size in drawn():
        for config in streamed_layouts(rows, columns, size, PROCESSORS, columns * size % 16 == 0):
            turns = [config.turns(batch) for batch in range(config.batches)]
            assert 0 <= sum(turns) * config.threads_per_row - config.cta_vectors < config.threads_per_row
            assert all(turn == config.together for turn in turns[:-1])
            assert 0 < turns[-1] <= config.together
            inner = [batch for batch in range(config.batches) if config.is_free(batch)]
            last = (config.cluster - 1) * config.cta_vectors + max([-1, *inner]) * config.batch_vectors + config.batch_vectors
            assert not inner or last <= columns // config.vector


def test_few_rows_that_are_read_once_have_clusters_that_fill_the_gpu():
    for rows, columns, size in drawn():
        first, *rest = streamed_layouts(rows, columns, size, PROCESSORS, columns * size % 16 == 0)
        assert first.cluster == 1 or rows * first.cluster < 2 * CTAS[size] * PROCESSORS
        assert first.cluster == 1 or first.cta_vectors >= 500
        assert [config.cluster for config in rest] == [8] * (first.cluster > 8)


def test_a_gpu_whose_clusters_nobody_knows_has_gradients_alone():
    """Their CTAs exchange nothing."""
    for operator in ("cross_entropy", "cross_entropy_both", "cross_entropy_backward"):
        case, gpu = Case(operator, (64, 4096), "bfloat16", "bfloat16", params=PLAIN), _layouts.Gpu("sm_120", 100)
        if operator.endswith("backward"):
            assert losses.of_case(case, gpu, True)
        else:
            with pytest.raises(Unsupported, match="no layout on sm_120"):
                losses.of_case(case, gpu, True)


@pytest.mark.parametrize("operator", ["cross_entropy", "cross_entropy_both", "cross_entropy_backward", "masked_softmax"])
def test_a_column_more_or_less_costs_hardly_more(operator):
    """What all threads have room for, over the row: of neighbours at most a tenth more."""

    def waste(columns, size):
        dtype = "bfloat16" if size == 2 else "float32"
        params = PLAIN if operator.startswith("cross") else (("scale", 0.1),)
        case = Case(operator, (2**28 // (columns * size), columns), dtype, dtype, params=params)
        plans = losses if operator.startswith("cross") else masks
        config = plans.of_case(case, _layouts.HOPPER, columns * size % 16 == 0)[0].config
        return config.cluster * config.vectors_per_thread * config.threads_per_row * config.vector / columns

    for columns, size in itertools.product((9001, 20000, 33333, 50257, 100000, 128256, 200003), (2, 4)):
        near = [waste(columns + step, size) for step in (-1, 0, 1)]
        assert max(near) <= 1.1 * min(near), (columns, size, near)


def test_dense_rows_that_start_anywhere_are_taken_alike():
    for operator, params in (
        ("cross_entropy_both", PLAIN),
        ("cross_entropy_backward", PLAIN),
        ("masked_softmax", (("scale", 0.1),)),
    ):
        case = Case(operator, (4096, 50257), "bfloat16", "bfloat16", params=params)
        first, second, *_ = (losses if params is PLAIN else masks).of_case(case, _layouts.HOPPER, False)
        assert (first.is_dense, second.is_dense) == (True, False)
