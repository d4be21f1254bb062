"""softmax of one to three long rows, each of several clusters.

The CTAs of a cluster exchange pairs in shared memory, and clusters in global memory: a word there is tagged as in `htile/pairs.py`.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from ..htile.config import LINE_WORDS, WARP
from ..htile.launch import announce, follow, launch_rows
from ..htile.merges import Peaks
from ..htile.pairs import number, peek, put
from ..htile.parts import PartTileConfig
from ..htile.rows import RowContext, RowStorer
from .softmax import Powers, top_of

TAGS = 1 << 24  # float32 tells them apart


class Softmax:
    """softmax over the rows of x (rows, columns), written to y; a callable for `cute.compile`.

    workspace  int64 (config.workspace_words,), zero before its first launch, for one launch at a time
    """

    def __init__(self, config: PartTileConfig):
        self.config = config

    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, workspace: cute.Tensor, stream):
        launch_rows(self.kernel(x, y, workspace), self.config, x.shape[0], stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor, y: cute.Tensor, workspace: cute.Tensor):
        announce()
        config = self.config
        context = RowContext(config, x, fill=-Float32.inf, width=4)
        row, out, parts = context.x, RowStorer(context, y), Parts(config, workspace)
        follow()
        tag = parts.next_tag()
        row.request()
        row.wait()
        powers = Powers(context, row, top_of(context, row, True), out.dtype, False)
        pair = powers.merged((Float32(tag), Float32(0.0)))
        parts.join(Int32(context.reduction.buffer[2, 0, (0, 0), 0]), *pair)
        powers.store(out, *parts.whole())


class Parts:
    """The parts of this CTA's row: the first warp of each part's first CTA tells its pair, and that of each CTA waits for all."""

    def __init__(self, config: PartTileConfig, workspace: cute.Tensor):
        self.config, self.thread = config, cute.arch.thread_idx()[0]
        row, cta, _ = cute.arch.block_idx()
        self.line, self.part = workspace.iterator + LINE_WORDS * row, cta // config.cluster
        self.leads = (cta % config.cluster == 0) & (self.thread < WARP)
        self.pair = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(2), byte_alignment=16)

    @cute.jit
    def next_tag(self) -> Int32:
        """Where a pair is told; others have it from there, as the first pair's reader changes it when all are told."""
        tag = Int32(0)
        if self.leads:
            tag = Int32(cute.arch.load(self.line, Int64) + 1) % TAGS
        return tag

    @cute.jit
    def join(self, tag: Int32, base: Float32, total: Float32):
        if self.leads & (self.thread == 0):
            put(self.line + 2 * (self.part + 1), tag, (base, total))
        if self.thread < WARP:
            self.await_all(tag)
        cute.arch.sync_threads()

    @cute.jit
    def await_all(self, tag: Int32):
        lane, parts, pair = self.thread, const_expr(self.config.parts), self.pair
        place = self.line + 2 * (cutlass.min(lane, parts - 1) + 1)
        one, other = peek(place)
        while (Int32(one >> 32) != tag) | (Int32(other >> 32) != tag):
            one, other = peek(place)
        top = cutlass.select_(lane < parts, number(one), -Float32.inf)
        total = cutlass.select_(lane < parts, number(other), Float32(0.0))
        whole = Peaks.whole(*Peaks.over_warp(None, top, total, lanes=parts))
        if lane == 0:
            pair[0], pair[1] = whole
            if self.leads & (self.part == 0):
                cute.arch.store(self.line, Int64(tag))

    def whole(self) -> tuple[Float32, Float32]:
        return self.pair[0], self.pair[1]
