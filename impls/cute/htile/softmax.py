"""The softmax kernel: only the arithmetic, and the launch."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from . import copy, dataflow, reduce
from .config import ElementwiseTileConfig

# Loops that are unrolled whole keep the row in registers between passes: 80 a thread at 16384 float16 columns, where
# two vectors a turn take 32 and so let seven CTAs of 256 threads share an SM.
UNROLL = 2


class Softmax:
    """softmax over the rows of x (rows, columns), written to y; a callable for `cute.compile`.

    x, y  cute tensors with unit column stride and rows that start on 16 bytes
    Three passes over the row in shared memory, each a vector at a time: a thread keeps no part of its row in
    registers, which leaves room for as many CTAs on an SM as shared memory holds.
    """

    def __init__(self, config: ElementwiseTileConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, stream: object) -> None:
        config = self.config
        self.kernel(x, y).launch(
            grid=[cute.ceil_div(x.shape[0], config.rows), config.cluster, 1],
            block=[config.threads, 1, 1],
            cluster=[1, config.cluster, 1] if const_expr(config.cluster > 1) else None,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, y: cute.Tensor) -> None:
        config = self.config
        turns = const_expr(config.vectors_per_thread)
        row = dataflow.RowContext(config, x, y)
        if const_expr(config.cluster > 1):
            reduce.open_cluster(row.barrier, config)
        dataflow.load(row)
        mine = row.shared

        maximum = -Float32.inf
        for turn in cutlass.range(turns, unroll=UNROLL):
            maximum = copy.load_vector(mine[None, 0, turn]).reduce(cute.ReductionOp.MAX, maximum, 0)
        maximum = reduce.group_max(maximum, config.group)

        base = reduce.reference(maximum)
        total = Float32(0.0)
        for turn in cutlass.range(turns, unroll=UNROLL):
            terms = reduce.exponential(copy.load_vector(mine[None, 0, turn]), base)
            total += terms.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
        total = reduce.group_sum(total, config.group)
        if const_expr(config.peers > 1):
            reduce.publish(maximum, total, row.pairs, row.barrier, config)
            base, total = reduce.merge(row.pairs, config)

        scale = cute.arch.rcp_approx(total)
        # float16 has no results below 2^-25; the wider exponents of the others reach below 2^-126.
        subnormals = const_expr(y.element_type is not cutlass.Float16)
        for turn in cutlass.range_constexpr(turns):
            terms = reduce.exponential(copy.load_vector(row.vector(turn)), base, subnormals)
            dataflow.store(row, turn, terms * scale)
