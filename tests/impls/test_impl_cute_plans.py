"""How impls/cute lays rows out: the table, what it refuses, what a refused launch falls back to, which rows are few."""

import itertools
from functools import partial

import pytest
from support.grids import over

from impls.cute import _layouts, _plans, ragged
from impls.cute.htile.config import RowTileConfig, share
from impls.cute.htile.crews import SplitTileConfig
from impls.cute.htile.layouts import MAX_VECTORS, choose, choose_few
from softbench import Unsupported
from softbench.model import Case

SHARED = 227 * 1024  # bytes of shared memory that a CTA may have


# Columns, bytes of a value: CTAs of a cluster, their threads, those of a row, vectors of a thread, where they are kept.
WHOLE_ROWS = [
    (128, 2, 1, 256, 8, 2, "registers"),  # two vectors a thread, from here to 8192 columns
    (256, 2, 1, 256, 16, 2, "registers"),  # 512 bytes: the last row of which a CTA takes 256 threads' worth
    (264, 2, 1, 128, 16, 3, "registers"),  # 33 vectors: a power of two of threads, so that rows keep to a warp
    (1000, 2, 1, 128, 64, 2, "registers"),  # 125 vectors on 64 threads: the last has one
    (1024, 2, 1, 128, 64, 2, "registers"),
    (2048, 2, 1, 128, 128, 2, "registers"),  # a CTA a row from here on
    (6144, 2, 1, 384, 384, 2, "registers"),  # whole warps, of any number
    (8192, 2, 1, 512, 512, 2, "registers"),  # 16 KiB: the last in registers
    (8200, 2, 2, 160, 160, 4, "shared"),  # the first cluster
    (16384, 2, 2, 256, 256, 4, "shared"),  # shares of 16 KiB, four vectors a thread
    (65536, 2, 8, 256, 256, 4, "shared"),  # 128 KiB: the last that eight CTAs take in such shares
    (65544, 2, 16, 160, 160, 4, "shared"),
    (131072, 2, 16, 256, 256, 4, "shared"),  # 256 KiB: from here on the shares grow, and six vectors a thread
    (151936, 2, 16, 224, 224, 6, "shared"),
    (262144, 2, 16, 352, 352, 6, "shared"),
    (524288, 2, 16, 448, 448, 10, "shared"),  # ten vectors: 448 threads, three CTAs a multiprocessor
    (1048576, 2, 16, 448, 448, 19, "shared"),  # four of these vectors in registers
    (1400000, 2, 16, 1024, 1024, 11, "shared"),  # 171 KiB a CTA, which has a multiprocessor to itself
    (4096, 4, 1, 512, 512, 2, "registers"),  # as 8192 columns of two bytes: bytes decide
    (262144, 4, 16, 448, 448, 10, "shared"),
]
ANYWHERE = [
    (1, 2, 1, 256, 1, 1, "registers"),  # a thread a row
    (7, 2, 1, 256, 2, 1, "registers"),  # seven elements may lie in two vectors
    (2041, 2, 1, 128, 128, 2, "registers"),  # 4 KiB and a vector more: the last that is trimmed in registers
    (2042, 2, 1, 160, 160, 2, "registers"),
    (8191, 2, 1, 544, 544, 2, "registers"),
    (16384, 2, 2, 288, 288, 4, "shared"),
    (50257, 2, 8, 224, 224, 4, "shared"),
    (200001, 2, 16, 288, 288, 6, "shared"),
    (8191, 4, 2, 288, 288, 4, "shared"),
    (50257, 4, 16, 224, 224, 4, "shared"),
    (130001, 4, 16, 352, 352, 6, "shared"),
]
WEIGHT_AND_BIAS = [
    (1024, 2, 1, 128, 32, 4, "registers"),  # one warp, which exchanges nothing
    (2048, 2, 1, 64, 64, 4, "registers"),
    (8192, 2, 1, 224, 224, 5, "registers"),  # 16 KiB: the last in registers
    (16384, 2, 1, 352, 352, 6, "registers"),
    (65536, 2, 8, 128, 128, 8, "shared"),
    (131072, 2, 8, 128, 128, 16, "shared"),  # sixteen vectors of 128 threads, then more threads of eleven
    (200000, 2, 8, 288, 288, 11, "shared"),
    (262144, 2, 16, 128, 128, 16, "shared"),
    (262144, 4, 16, 288, 288, 15, "shared"),
]
AND_A_RESIDUAL = [
    (8192, 2, 1, 256, 256, 4, "registers"),
    (16384, 2, 1, 128, 128, 16, "shared"),  # shares of 32 KiB, sixteen vectors a thread
    (131072, 2, 8, 128, 128, 16, "shared"),
    (262144, 2, 16, 128, 128, 16, "shared"),
    (32768, 4, 4, 128, 128, 16, "shared"),
    (65536, 4, 8, 256, 256, 8, "shared"),  # eight vectors of float32 where eight CTAs wait for one another
    (262144, 4, 16, 512, 512, 8, "shared"),
]
PLAIN = [
    (6144, 2, 1, 192, 192, 4, "registers"),
    (8200, 2, 1, 288, 288, 4, "registers"),
    (16384, 2, 2, 256, 256, 4, "shared"),  # shares are full
    (65544, 2, 4, 192, 192, 11, "shared"),  # of sixteen CTAs they would not be
    (262144, 2, 16, 192, 192, 11, "shared"),  # nor can there be as many
]
FEW_ROWS = [
    (16384, 4, 16, 128, 128, 2, "registers"),
    (65536, 2, 16, 256, 256, 2, "registers"),  # two vectors of 16 bits
    (131072, 2, 16, 256, 256, 4, "registers"),
    (131072, 4, 16, 256, 256, 8, "registers"),  # eight vectors before more threads
    (262144, 4, 16, 384, 384, 11, "registers"),
]


CHOICES = [
    (choose, WHOLE_ROWS),
    (partial(choose, aligned=False), ANYWHERE),
    (partial(choose, terms=2), WEIGHT_AND_BIAS),
    (partial(choose, tiles=2, terms=2), AND_A_RESIDUAL),
    (partial(choose, plain=True), PLAIN),
    (choose_few, FEW_ROWS),
]


@over(("choice", "asked"), [(choice, asked) for choice, table in CHOICES for asked in table])
def test_the_layout_of_a_row(choice, asked):
    columns, itemsize, *expected = asked
    config = choice(columns, itemsize)
    assert [config.cluster, config.threads, config.threads_per_row, config.vectors_per_thread, config.keep] == expected


@over("terms", [0, 2])
@over("itemsize", [2, 4])
@over("aligned", [True, False])
def test_every_vector_of_a_row_has_one_thread(itemsize, aligned, terms):
    for vectors in [*range(1, 700), 2047, 2048, 2049, 4095, 4097, 16032, 16385, 32767, 65535, 131000]:
        config = choose(vectors * 16 // itemsize, itemsize, "sm_90", aligned, 1, terms)
        has_lines = vectors > 768 and (vectors % 2 or not aligned)  # counted from a cache line
        assert config.vectors == vectors + (not aligned) + 7 * has_lines
        assert (config.cluster - 1) * config.cta_vectors < vectors, "a CTA without columns"
        assert config.cluster * config.cta_vectors >= config.vectors
        assert config.cta_vectors <= config.threads_per_row * config.vectors_per_thread
        assert config.threads_per_row * (config.vectors_per_thread - 1) < config.cta_vectors, "a turn without vectors"
        assert config.rows == 1 or config.cluster == 1, "the mbarrier of a cluster counts one row"
        assert config.is_even <= (vectors == config.cluster * config.threads_per_row * config.vectors_per_thread)
        assert config.shared_bytes() <= SHARED
        assert config.vectors_per_thread - config.beside <= MAX_VECTORS


@over("aligned", [True, False])
@over("tiles", [1, 2])
def test_what_is_chosen_has_room_and_what_has_none_is_refused(tiles, aligned):
    for columns in range(4096, 2**20 + 1, 4096):
        bytes_of_row, room = columns * 4, 16 * (SHARED - 4096) // tiles  # less buffers, and what turns round up to
        if bytes_of_row <= room / 2:
            assert choose(columns, 4, "sm_90", aligned, tiles).shared_bytes(tiles) <= SHARED
        elif bytes_of_row > room:
            with pytest.raises(ValueError, match="more than a cluster keeps"):
                choose(columns, 4, "sm_90", aligned, tiles)


def test_a_turn_is_inner_where_no_thread_has_a_column_to_check():
    whole, odd = choose(16384, 2), choose(16376, 2)
    shifted = RowTileConfig(16384, 2, 2, 288, 288, "shared", False)  # 1032 and 1017 vectors
    assert whole.is_even
    assert [whole.is_inner(turn) for turn in range(4)] == [True] * 4
    assert not odd.is_even
    assert [odd.is_inner(turn) for turn in range(4)] == [False, True, True, False], "not whole sectors"
    assert not shifted.is_inner(0), "the first vector may lie before the row"
    assert [shifted.is_inner(turn) for turn in range(1, 4)] == [True, True, False]
    for each in (32, 1):
        ends = RowTileConfig(8 * each + 263, 2, 1, 32, each, aligned=False)
        assert [ends.is_inner(1, beyond) for beyond in (0, 1)] == [True, False]


@over(
    ("given", "reason"),
    [
        ((4096, 2, 1, 128, 48), "whole warps"),
        ((64, 2, 16), "without any"),
        ((1001, 2), "16-byte vectors"),
        ((4096, 2, 2, 128, 64), "share one row"),
        ((4096, 2, 1, 128, 128, "l2"), "keep must be"),
        ((1001, 2, 1, 128, 128, "l1", False, True, False, 4), "kept in l1"),
    ],
)
def test_config_refuses_what_the_kernel_cannot_divide(given, reason):
    with pytest.raises(ValueError, match=reason):
        RowTileConfig(*given)


def softmax_configs(columns, itemsize=2, few="", gpu=_layouts.HOPPER):
    dtype = {2: "float16", 4: "float32"}[itemsize]
    aligned = _plans.whole_vectors(columns, itemsize)
    return [build.config for build in _plans.softmax(columns, dtype, dtype, gpu, aligned, few)]


@over("columns", [7, 4096, 50257, 131072, 262144, 524288])
@over("itemsize", [2, 4])
def test_a_refused_cluster_is_followed_by_smaller_ones(columns, itemsize):
    *clusters, split = softmax_configs(columns, itemsize)
    assert isinstance(split, SplitTileConfig)
    sizes = [config.cluster for config in clusters]
    assert sizes == sorted(sizes, reverse=True)
    assert all(before == 2 * after for before, after in itertools.pairwise(sizes))
    for config in clusters:
        assert config.cta_vectors <= config.threads_per_row * config.vectors_per_thread
        assert config.vectors_per_thread - config.beside <= MAX_VECTORS
        assert config.shared_bytes() <= SHARED
    assert sizes[-1] == 1 or columns * itemsize / (sizes[-1] // 2) > 200 * 1024, "half the cluster has room as well"


def test_rows_beyond_a_cluster_are_split_or_read_twice():
    assert [type(config) for config in softmax_configs(1048576, 4)] == [SplitTileConfig]
    long = [b.config for b in _plans.softmax_backward(1048576, "float32", "float32", _layouts.HOPPER, True)]
    assert [(config.cluster, config.keep) for config in long] == [(16, "l1"), (8, "l1")]
    assert not list(_plans.softmax_backward(10**8, "float32", "float32", _layouts.HOPPER, True))


@over(
    ("rows", "columns", "itemsize", "expected"),
    [
        (1, 4100, 4, "cluster"),
        (1, 4096, 4, ""),  # 16 KiB: one CTA
        (1, 65536, 4, "cluster"),  # 256 KiB: a cluster is done before more have told one another
        (1, 262144, 4, "parts 7"),
        (1, 262148, 4, "parts 7"),
        (2, 524288, 4, "parts 3"),
        (1, 4194304, 2, 1),  # more than the registers of seven clusters hold
        (3, 725896, 2, "parts 2"),
        (4, 725896, 2, 4),
        (2, 1048576, 4, "split"),
        (32, 524288, 4, "split"),  # clusters of sixteen, seven at a time
        (64, 524288, 4, "crews"),
        (64, 350000, 4, "crews"),
        (32, 131072, 2, "cluster"),
        (64, 131072, 2, "some 64"),  # shared memory holds more of them at a time
        (256, 131072, 2, ""),
    ],
)
def test_what_becomes_of_few_rows(rows, columns, itemsize, expected):
    few = _layouts.few(rows, columns, itemsize, _layouts.HOPPER)
    assert few == expected
    assert _layouts.few(rows, columns, itemsize, _layouts.Gpu("sm_80", 108)) == ""
    first = softmax_configs(columns, itemsize, few)[0]
    assert isinstance(first, SplitTileConfig) == (str(few).split()[:1] not in ([], ["some"], ["cluster"], ["parts"]))
    assert getattr(first, "parts", 1) == int(str(few).partition("parts ")[2] or 1)
    assert not isinstance(few, int) or (first.crews, first.stages) == (few, 1)
    assert few != "cluster" or first.keep == "registers"


@over(("vectors", "ctas", "each"), [(18992, 16, 1192), (2048, 8, 256), (20, 4, 5), (33, 1, 33)])
def test_shares_are_whole_lines_where_every_cta_has_one(vectors, ctas, each):
    assert share(vectors, ctas, vectors) == each


def test_an_unknown_architecture_has_no_builds():
    old = _layouts.Gpu("sm_80", 108)
    assert softmax_configs(131072, gpu=old) == []
    assert list(_layouts.layouts(1048576, 4, old, True)) == []
    with pytest.raises(ValueError, match="sm_80"):
        choose(4096, 2, "sm_80")
    asked = Case("ragged_softmax", (4, 4096), "float16", "float16", params=(("segments", 9),))
    with pytest.raises(Unsupported, match="no layout on sm_80"):
        ragged.of_case(asked, old, True)
