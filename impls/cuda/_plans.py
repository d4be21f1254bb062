"""How each rung of the ladder cuts rows x columns into launches. Pure functions of shape and GPU; no GPU needed."""

from collections.abc import Callable
from dataclasses import dataclass

from softbench import Unsupported

from ._program import THREADS, UNROLL, VECTOR_BYTES, Gpu, Program, Shape, Step, levels, numbered, power_of_two, tiling

# Parts of a row that every block of the last kernel merges itself: four per thread, 8 KB from the L2.
MOST_SHARED_CHUNKS = 4 * THREADS
WARP_BYTES = 4096  # the longest row of a warp: eight vectors a lane
WARP_COUNTS = (1, 2, 4, 8, 9)  # vectors a lane that kernels/warp.cu has kernels for
# From this size of the input on, its lines are loaded to stay in the L2 (docs/notes/performance.md).
RETAIN_BYTES = 8 * 2**20

SPLIT_THREADS = 512
# Shared memory of a block of the cooperative kernel: a Hopper multiprocessor holds two blocks, so one loads while the
# other waits for its team.
KEPT_BYTES = 112 * 1024
KEPT_VECTORS = KEPT_BYTES // VECTOR_BYTES
# A block that keeps its share in registers and in shared memory, as in kernels/on_chip.cu.
WORKERS, HELD, PIECE, MOST_PIECES = 480, 10, 3, 10
PIECE_BYTES = PIECE * WORKERS * VECTOR_BYTES
ON_CHIP_VECTORS = (HELD + MOST_PIECES * PIECE) * WORKERS
LEAST_SHARE = 512  # vectors: one per thread
SPLIT_BYTES = 32 * 1024  # of a row: a shorter one is read by a block sooner than an exchange takes
TAG_WORDS, SLOTS = 16, 2  # kernels/exchange.cuh


@dataclass(frozen=True)
class Rung:
    """One way to a softmax: a source of `kernels/`, those of its kernels that it may use, and its plan.

    A plan takes (Shape, Gpu) and raises Unsupported for what the rung does not serve. shared_bytes: the most dynamic
    shared memory that a block of its kernels takes, of SPLIT_THREADS then.
    """

    source: str
    kernels: tuple[str, ...]
    plan: Callable[[Shape, Gpu], Program]
    shared_bytes: int = 0


def naive(shape: Shape, gpu: Gpu) -> Program:
    """Sums of chunks; then every block adds up those of its row."""
    t = tiling(shape, gpu, MOST_SHARED_CHUNKS)
    steps = (Step("exp_sums", t.blocks), Step("divide", t.blocks))
    return Program(steps, shape.rows, t.chunk_vectors, t.chunks, t.group, floats=t.units)


def multi_pass(shape: Shape, gpu: Gpu) -> Program:
    """Two reductions, each a kernel over the chunks and one more per level; then the normalisation."""
    t = tiling(shape, gpu)
    maxima, finals, sums = levels("reduce_maxima", shape.rows, t.chunks, 0)
    totals_steps, totals, end = levels("reduce_sums", shape.rows, t.chunks, sums)
    steps = (Step("chunk_maxima", t.blocks), *maxima, Step("chunk_sums", t.blocks), *totals_steps)
    steps += (Step("normalise", t.blocks),)
    places = {"finals": finals, "sums": sums, "totals": totals, "floats": end}
    return Program(steps, shape.rows, t.chunk_vectors, t.chunks, t.group, **places)


def fused(shape: Shape, gpu: Gpu) -> Program:
    """Three kernels whatever the length; in the second a row is merged by at most one block."""
    t = tiling(shape, gpu)
    lanes = min(THREADS, power_of_two(t.chunks))
    reduce = Step("global_reduce", -(-shape.rows * lanes // THREADS))
    steps = (Step("block_statistics", t.blocks), reduce, Step("normalise", t.blocks))
    floats = 2 * (t.units + shape.rows)
    return Program(steps, shape.rows, t.chunk_vectors, t.chunks, t.group, finals=t.units, lanes=lanes, floats=floats)


def fused_wide(shape: Shape, gpu: Gpu) -> Program:
    """As `fused`, with one level of many blocks per factor of FAN chunks per row, none where a row is one chunk."""
    t = tiling(shape, gpu)
    merges, finals, end = levels("merge_statistics", shape.rows, t.chunks, 0)
    steps = (Step("block_statistics", t.blocks), *merges, Step("normalise", t.blocks))
    return Program(steps, shape.rows, t.chunk_vectors, t.chunks, t.group, finals=finals, floats=2 * end)


def fused_two(shape: Shape, gpu: Gpu) -> Program:
    """Two kernels; so few chunks per row that every block can merge them."""
    t = tiling(shape, gpu, MOST_SHARED_CHUNKS)
    steps = (Step("block_statistics", t.blocks), Step("merge_and_normalise", t.blocks))
    return Program(steps, shape.rows, t.chunk_vectors, t.chunks, t.group, floats=2 * t.units)


def online(shape: Shape, gpu: Gpu) -> Program:
    """One kernel with a group of threads per row; where that leaves the GPU idle, two with several blocks per row."""
    rows, vectors = shape.rows, shape.vectors
    if rows >= 2 * gpu.processors or vectors <= UNROLL * THREADS:
        group = tiling(shape, gpu).group
        steps = (Step("online_rows", -(-numbered(rows, 1) * group // THREADS)),)
        return Program(steps, rows, vectors, 1, group)
    # The largest blocks that leave one to every multiprocessor; as many as the GPU holds at a time.
    threads = next((n for n in (256, 128, 64) if rows * (vectors // (UNROLL * n)) >= gpu.processors), 32)
    held = gpu.processors * 2048 // threads
    chunks = min(-(-vectors // (UNROLL * threads)), max(1, held // rows), MOST_SHARED_CHUNKS)
    steps = tuple(Step(kernel, rows * chunks, threads) for kernel in ("online_statistics", "online_normalise"))
    return Program(steps, rows, vectors, chunks, threads, floats=2 * rows * chunks)


def warp(shape: Shape, gpu: Gpu) -> Program:
    """One warp per row, or a power of two of its lanes; Unsupported for rows beyond WARP_BYTES."""
    row_bytes = shape.columns * shape.itemsize
    if row_bytes > WARP_BYTES:
        raise Unsupported(f"rows of {row_bytes} bytes: a warp holds up to {WARP_BYTES} in its registers")
    lanes = min(32, power_of_two(shape.vectors))
    count = next(n for n in WARP_COUNTS if n * lanes >= shape.vectors)
    step = Step(f"warp_rows_{count}", -(-numbered(shape.rows, 1) * lanes // THREADS))
    return Program((step,), shape.rows, shape.vectors, 1, lanes, retain=retains(shape))


def cooperative(shape: Shape, gpu: Gpu) -> Program:
    """One kernel: one block per row or per several rows if it holds them, else teams of blocks."""
    blocks = gpu.processors * gpu.residents
    row_bytes = shape.vectors * VECTOR_BYTES
    few = 2 * shape.rows <= blocks and row_bytes >= SPLIT_BYTES
    if shape.vectors > KEPT_VECTORS or few:
        return _split(shape, *_team(shape, gpu))
    group = min(SPLIT_THREADS, power_of_two(-(-shape.vectors // UNROLL)))
    threads = max(group, 128)
    rows_a_block = threads // group
    shared = rows_a_block * row_bytes
    step = Step("rows_in_shared", -(-numbered(shape.rows, 1) // rows_a_block), threads, shared_bytes=shared)
    return Program((step,), shape.rows, shape.vectors, 1, group, kept=shape.vectors, retain=retains(shape))


def _team(shape: Shape, gpu: Gpu) -> tuple[int, int]:
    """Teams, and the most blocks to each.

    One team per row if shared memory and two thirds of the L2 hold the matrix (a second read from the L2 costs little);
    else teams that each keep a row, in as many rounds as needed; else one team.
    """
    blocks = gpu.processors * gpu.residents
    if shape.rows <= blocks and shape.input_bytes <= blocks * KEPT_BYTES + gpu.l2_bytes * 2 // 3:
        return shape.rows, blocks // shape.rows
    needed = -(-shape.vectors // KEPT_VECTORS)
    if needed > blocks:
        return 1, blocks
    rounds = -(-shape.rows // (blocks // needed))
    teams = -(-shape.rows // rounds)
    return teams, blocks // teams


def _split(shape: Shape, teams: int, most: int) -> Program:
    size = min(most, -(-shape.vectors // LEAST_SHARE), SPLIT_THREADS)
    # Shares of whole warps' requests, and none without columns.
    share = -(-shape.vectors // (32 * size)) * 32
    size = -(-shape.vectors // share)
    kept = min(share, KEPT_VECTORS)
    step = Step("split_rows", teams * size, SPLIT_THREADS, shared_bytes=kept * VECTOR_BYTES, cooperative=True)
    return Program((step,), shape.rows, share, size, SPLIT_THREADS, kept=kept, words=_exchange_words(teams, size))


def on_chip(shape: Shape, gpu: Gpu) -> Program:
    """One kernel: a team of blocks per row, one block per multiprocessor. Unsupported for rows that do not fit, or are short."""
    rows, vectors = shape.rows, shape.vectors
    if vectors * VECTOR_BYTES < SPLIT_BYTES:
        raise Unsupported(f"rows below {SPLIT_BYTES} bytes: a block alone reads them sooner than a team exchanges pairs")
    most = gpu.processors // rows
    if not most:
        raise Unsupported(f"more rows than the GPU's {gpu.processors} multiprocessors, of which each row takes some")
    if vectors > most * ON_CHIP_VECTORS:
        held = most * ON_CHIP_VECTORS * VECTOR_BYTES
        raise Unsupported(f"rows beyond {held} bytes: what {most} of {gpu.processors} multiprocessors hold, a row's share")
    size = min(most, -(-vectors // WORKERS))
    pieces = max(0, -(-(vectors - size * HELD * WORKERS) // (size * PIECE * WORKERS)))
    step = Step("rows_on_chip", rows * size, SPLIT_THREADS, shared_bytes=pieces * PIECE_BYTES, cooperative=True)
    return Program((step,), rows, -(-vectors // size), size, SPLIT_THREADS, words=_exchange_words(rows, size))


def _exchange_words(teams: int, size: int) -> int:
    """Words through which `teams` teams of `size` blocks each communicate."""
    return teams * (TAG_WORDS + 2 * SLOTS * (size + 1))


def retains(shape: Shape) -> bool:
    """Whether lines of the input are loaded to stay in the L2."""
    return shape.input_bytes >= RETAIN_BYTES


NAIVE = Rung("naive.cu", ("exp_sums", "divide"), naive)
MULTI_PASS = Rung("multi_pass.cu", ("chunk_maxima", "reduce_maxima", "chunk_sums", "reduce_sums", "normalise"), multi_pass)
FUSED = Rung("fused.cu", ("block_statistics", "global_reduce", "normalise"), fused)
FUSED_WIDE = Rung("fused.cu", ("block_statistics", "merge_statistics", "normalise"), fused_wide)
FUSED_TWO = Rung("fused.cu", ("block_statistics", "merge_and_normalise"), fused_two)
ONLINE = Rung("online.cu", ("online_rows", "online_statistics", "online_normalise"), online)
WARP = Rung("warp.cu", tuple(f"warp_rows_{count}" for count in WARP_COUNTS), warp)
COOPERATIVE = Rung("cooperative.cu", ("rows_in_shared", "split_rows"), cooperative, KEPT_BYTES)
ON_CHIP = Rung("on_chip.cu", ("rows_on_chip",), on_chip, MOST_PIECES * PIECE_BYTES)
