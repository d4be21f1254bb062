"""How each rung of the CUDA C++ ladder cuts rows into launches; no GPU, no compiler, no torch."""

import itertools
import struct

import pytest
from support.cuda_family import RUNGS, plans, program
from support.grids import over

from softbench.contract import Unsupported

H200 = program.Gpu(processors=132, l2_bytes=60 * 2**20)
COLUMNS = [1, 2, 3, 7, 31, 33, 255, 1000, 8191, 8193, 50257, 131072, 1048577, 10**8 + 1]
ROWS = [1, 3, 16, 133, 264, 65537, 2**20 + 1]


def shape(rows, columns, itemsize=4, aligned=True):
    return program.Shape(rows, columns, itemsize, aligned)


# rows, columns, itemsize, aligned -> chunks, chunk_vectors, group
TILINGS = [
    ((1, 1, 2, True), (1, 1, 1)),
    ((1, 1, 2, False), (1, 1, 1)),
    ((70000, 3, 2, False), (1, 2, 2)),  # two vectors where unaligned
    ((32768, 1024, 2, True), (1, 128, 32)),  # a warp a row, four vectors a thread
    ((16, 1024, 2, True), (1, 128, 128)),  # few rows: a vector a thread
    ((16384, 8192, 2, True), (1, 1024, 256)),  # the longest row of one chunk
    ((16384, 8191, 2, False), (2, 544, 256)),  # one vector more splits evenly
    ((4096, 65536, 2, True), (8, 1024, 256)),
    ((1, 1048576, 2, True), (512, 256, 256)),  # one row over all multiprocessors
    ((1, 100_000_000, 4, True), (24415, 1024, 256)),
]


@over(("asked", "expected"), TILINGS)
def test_tiling(asked, expected):
    tiling = program.tiling(shape(*asked), H200)
    assert (tiling.chunks, tiling.chunk_vectors, tiling.group) == expected


# The launches of each rung for one row of 100 million float32: kernels and their blocks.
LONG = {
    "naive": "exp_sums 1018, divide 1018",
    "multi_pass": "chunk_maxima 24415, reduce_maxima 24, reduce_maxima 1, "
    "chunk_sums 24415, reduce_sums 24, reduce_sums 1, normalise 24415",
    "fused": "block_statistics 24415, global_reduce 1, normalise 24415",
    "fused_wide": "block_statistics 24415, merge_statistics 24, merge_statistics 1, normalise 24415",
    "fused_two": "block_statistics 1018, merge_and_normalise 1018",
    "online": "online_statistics 1024, online_normalise 1024",
    "cooperative": "split_rows 264",
}


@over(("name", "launches"), LONG.items())
def test_launches_for_one_row_of_100_million(name, launches):
    steps = RUNGS[name].plan(shape(1, 10**8), H200).steps
    assert ", ".join(f"{step.kernel} {step.blocks}" for step in steps) == launches
    assert {step.threads for step in steps} == {512 if name == "cooperative" else 256}


@over("aligned", [True, False])
@over("itemsize", [2, 4])
@over("columns", COLUMNS)
@over("rows", ROWS)
def test_every_rung_covers_every_vector_and_row(rows, columns, itemsize, aligned):
    asked = shape(rows, columns, itemsize, aligned)
    for name, rung in RUNGS.items():
        try:
            plan = rung.plan(asked, H200)
        except Unsupported:
            refuses = {"warp": columns * itemsize > plans.WARP_BYTES, "on_chip": not fits_on_chip(asked)}
            assert refuses.get(name) or rows * columns > 2**40, name
            continue
        assert all(0 < step.blocks < 2**31 and step.threads <= 1024 for step in plan.steps)
        assert {step.kernel for step in plan.steps} <= set(rung.kernels)
        assert all(0 <= number < 2**32 for number in plan.arguments()[4:])
        held = held_vectors(plan, plan.steps[-1])
        assert held >= asked.vectors, f"{name}: columns are left out"
        assert rows_served(plan, plan.steps[0]) >= rows, f"{name}: rows are left out"
        assert (plan.chunks - 1) * plan.chunk_vectors < asked.vectors or name == "online", f"{name}: an empty chunk"
        assert plan.group & (plan.group - 1) == 0, "groups are halved by shuffles"


def fits_on_chip(asked):
    """Rows that are long enough to be shared, and find room: a team of multiprocessors to each."""
    room = H200.processors // asked.rows * plans.ON_CHIP_VECTORS
    return plans.SPLIT_BYTES // 16 <= asked.vectors <= room


def held_vectors(plan, step):
    """Vectors of a row that a plan's last kernel takes."""
    if step.kernel.startswith("warp_rows"):
        return plan.group * int(step.kernel.rpartition("_")[2])
    if step.kernel == "online_normalise":
        return plan.chunk_vectors
    return plan.chunks * plan.chunk_vectors


def rows_served(plan, step):
    """Rows that a plan's first kernel takes; teams of the cooperative one go on to further rows."""
    if step.kernel in ("split_rows", "rows_on_chip"):
        residents = H200.residents if step.kernel == "split_rows" else 1
        assert step.blocks % plan.chunks == 0, "a team that is not complete would wait for ever"
        assert step.blocks <= H200.processors * residents, "all blocks must be on the GPU at once"
        return plan.rows
    return step.blocks * (step.threads // plan.group) // plan.chunks


@over(
    ("count", "merged", "place", "end"),
    [
        (1, [], 5, 8),
        (2, [(5, 11, 2, 1)], 11, 14),
        (1024, [(5, 3077, 1024, 1)], 3077, 3080),
        (1025, [(5, 3080, 1025, 2), (3080, 3086, 2, 1)], 3086, 3089),
    ],
)
def test_levels_end_with_one_part_a_row(count, merged, place, end):
    found, last, behind = program.levels("reduce", 3, count, 5)
    assert [struct.unpack("@qqII", step.level) for step in found] == merged
    assert [step.blocks for step in found] == [3 * level[3] for level in merged]
    assert (last, behind) == (place, end)


def test_parts_of_the_passes_do_not_share_places():
    plan = RUNGS["multi_pass"].plan(shape(3, 10**7), H200)
    levels = [program.LEVEL.unpack(step.level) for step in plan.steps if step.level]
    spans = [(0, 3 * plan.chunks), (plan.sums, plan.sums + 3 * plan.chunks)]
    spans += [(to, to + 3 * merged) for _, to, _, merged in levels]
    spans.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert spans[-1][1] == plan.floats
    assert {plan.finals, plan.totals} <= {start for start, _ in spans}


# rows, columns, itemsize -> teams, blocks to a team, vectors of a share that are kept
SPLITS = [
    ((1, 10**8, 4), 1, 264, 7168),
    ((1, 10**7, 4), 1, 264, 7168),  # shared memory keeps three quarters
    ((1, 10**6, 4), 1, 261, 960),  # all of it
    ((1, 100_000, 4), 1, 49, 512),  # no block with less than a vector a thread
    ((16, 2**20, 4), 16, 16, 7168),  # 64 MiB: every row a team
    ((100, 2**20, 4), 7, 37, 7104),  # 400 MB: teams that keep a row
    ((65537, 65536, 2), 132, 2, 4096),  # two blocks a row
    ((4, 10**8, 4), 1, 264, 7168),  # rows beyond all shared memory
]
# Likewise, with vectors in shared memory.
PIECES = 10 * plans.PIECE_BYTES // 16
ON_CHIP = [
    ((1, 10**7, 4), 1, 132, PIECES),  # all of it
    ((1, 10**6, 4), 1, 132, 0),  # in registers
    ((1, 10_000, 4), 1, 6, 0),  # no block without a vector for each worker
    ((16, 131072, 4), 16, 8, 0),  # 8 MiB: every row a team of eight
    ((9, 2**20, 4), 9, 14, PIECES),  # 4 MB each
    ((1, 2 * 10**7, 2), 1, 132, PIECES),
]


@over(("name", "split"), [*(("cooperative", split) for split in SPLITS), *(("on_chip", split) for split in ON_CHIP)])
def test_teams_of_blocks(name, split):
    asked, teams, blocks, kept = split
    plan = RUNGS[name].plan(shape(*asked), H200)
    (step,) = plan.steps
    assert step.cooperative
    assert (step.blocks, plan.chunks, step.shared_bytes) == (teams * blocks, blocks, kept * 16)
    assert plan.words == teams * (16 + 4 * (blocks + 1))
    if name == "cooperative":
        assert step.kernel == "split_rows"
        assert plan.kept == kept <= plans.KEPT_BYTES // 16


@over(
    ("name", "asked", "reason"),
    [
        ("on_chip", (16, 4096), "rows below 32768 bytes"),
        ("on_chip", (1, 10_137_601), "rows beyond 40550400 bytes: what 132 of 132 multiprocessors hold"),
        ("on_chip", (133, 65536), "more rows than the GPU's 132 multiprocessors"),
        ("multi_pass", (2**31, 1), "2147483648 rows in 1 chunks"),
        ("warp", (5, 1025), "rows of 4100 bytes: a warp holds up to 4096"),
    ],
)
def test_what_a_rung_does_not_serve_is_refused(name, asked, reason):
    with pytest.raises(Unsupported, match=reason):
        RUNGS[name].plan(shape(*asked), H200)


def test_a_gpu_that_holds_one_block_a_multiprocessor_gets_half_the_blocks():
    gpu = program.Gpu(132, 60 * 2**20, residents=1)
    assert RUNGS["cooperative"].plan(shape(1, 10**8), gpu).steps[0].blocks == 132


@over(("rows", "columns", "keeps"), [(2048, 1024, True), (2047, 1024, False), (1, 2**21, True)])
def test_lines_are_kept_from_8_mib_on(rows, columns, keeps):
    assert plans.retains(shape(rows, columns)) is keeps


def test_a_warp_holds_4_kib_from_anywhere():
    assert RUNGS["warp"].plan(shape(5, 1024, aligned=False), H200).steps[0].kernel == "warp_rows_9"
