"""The maximum and the sum of exponentials of a row, over the threads of a warp, the warps of a CTA and the CTAs of a
cluster.

A part of a row is described by a pair (m, s): its maximum, and the sum of exp(x - m) over it. Two parts merge as
(M, s1·exp(m1 - M) + s2·exp(m2 - M)) with M = max(m1, m2) (Milakov and Gimelshein, arXiv:1805.02867). A part that is
all -inf has m = -inf, s = 0, and -inf - -inf would be NaN; `reference` keeps every subtraction away from that.
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from .config import WARP, ElementwiseTileConfig

LOG2_E = math.log2(math.e)
LOWEST = -3.4028234663852886e38
PAIR_BYTES = 8


def reference(maximum: Float32) -> Float32:
    """What to subtract before an exponential: the maximum, or the lowest finite number if that is -inf.

    NaN stays NaN. -inf - reference is then -inf, whose exponential is 0, whatever the maximum.
    """
    return cute.arch.fmax(maximum, LOWEST, nan=True)


def exponential(x: cute.TensorSSA, base: Float32, subnormals: bool = False) -> cute.TensorSSA:
    """exp(x - base) of float32 values by the hardware's exp2; results below 2^-126 are 0 unless `subnormals`.

    The difference comes first: x·log2(e) - base·log2(e) would lose what x and base have in common, 3e-4 of the
    result at an offset of 1e4. One ex2.approx a value: the vector form of exp2 comes only with flags that let the
    compiler assume that no value is infinite or NaN.
    """
    values = cute.make_rmem_tensor(x.shape, Float32)
    values.store((x - base) * LOG2_E)
    for i in range(cute.size(values)):
        values[i] = cute.math.exp2(values[i], approx=True, ftz=not subnormals)
    return values.load()


def group_max(value: Float32, group: int) -> Float32:
    """The maximum over `group` neighbouring threads of a warp; NaN if one is NaN."""
    return cute.arch.warp_reduction(value, lambda a, b: cute.arch.fmax(a, b, nan=True), threads_in_group=group)


def group_sum(value: Float32, group: int) -> Float32:
    """The sum over `group` neighbouring threads of a warp."""
    return cute.arch.warp_reduction(value, lambda a, b: a + b, threads_in_group=group)


@cute.jit
def publish(
    maximum: Float32, total: Float32, pairs: cute.Tensor, barrier, config: cutlass.Constexpr[ElementwiseTileConfig]
) -> None:
    """Write this warp's pair where every warp of its row can read it, and wait until all of them have.

    pairs    float32 (rows, peers, 2) in shared memory, the pairs of one row in order of CTA and warp
    barrier  mbarrier in shared memory that expects the bytes of `peers` pairs; unused without a cluster
    """
    thread = cute.arch.thread_idx()[0]
    lane = thread % WARP
    row = thread // config.threads_per_row
    slot = thread % config.threads_per_row // WARP
    if const_expr(config.cluster == 1):
        if lane == 0:
            pairs[row, slot, 0] = maximum
            pairs[row, slot, 1] = total
        cute.arch.sync_threads()
    else:
        slot += cute.arch.block_idx_in_cluster() * config.warps_per_row
        pair = (maximum.bitcast(Int32), total.bitcast(Int32))
        target = (pairs.iterator + slot * 2).align(PAIR_BYTES)
        cute.arch.cluster_wait()
        if lane < config.cluster:
            cute.arch.store_async_dsmem(target, pair, barrier, lane)
        cute.arch.mbarrier_wait(barrier, 0)


@cute.jit
def merge(pairs: cute.Tensor, config: cutlass.Constexpr[ElementwiseTileConfig]) -> tuple[Float32, Float32]:
    """(reference, sum) of this thread's row from the pairs of all its peers."""
    thread = cute.arch.thread_idx()[0]
    row = thread // config.threads_per_row
    group = const_expr(min(WARP, config.peers))
    turns = const_expr(config.peers // group)
    maxima = cute.make_rmem_tensor(turns, Float32)
    totals = cute.make_rmem_tensor(turns, Float32)
    for turn in cutlass.range_constexpr(turns):
        peer = thread % group + turn * WARP
        maxima[turn] = pairs[row, peer, 0]
        totals[turn] = pairs[row, peer, 1]
    maximum = maxima.load().reduce(cute.ReductionOp.MAX, -Float32.inf, 0)
    base = reference(group_max(maximum, group))
    scaled = totals.load() * exponential(maxima.load(), base)
    return base, group_sum(scaled.reduce(cute.ReductionOp.ADD, Float32(0.0), 0), group)


@cute.jit
def open_cluster(barrier, config: cutlass.Constexpr[ElementwiseTileConfig]) -> None:
    """Make the mbarrier ready for one exchange and tell the cluster; `publish` waits for the others."""
    if cute.arch.thread_idx()[0] == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, config.peers * PAIR_BYTES)
    cute.arch.cluster_arrive_relaxed()
