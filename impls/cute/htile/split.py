"""Rows that are split over the whole GPU: every CTA has a share of every row, and pairs go through global memory.

Or the GPU's CTAs are several crews, and every CTA has a share of each of its crew's rows; a row's number is the crew's own.

All CTAs are on the GPU at once, so they can wait for one another. A few warps of each, the couriers, wait for pairs while the
others load, reduce and store: `publish` sends a CTA's pair to the first CTA of its team, `relay` sends the team's pair to all,
`fetch` reads all. A word of a pair that carries the row's tag has arrived (the idea of NCCL's LL protocol); tags continue from
launch to launch.
"""

from __future__ import annotations

import copy
import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from .config import LINE_WORDS, VECTOR_BYTES, WARP, ceil_div
from .copy import bounded_copy, end_of, loading, storing
from .crews import SplitTileConfig
from .merges import Peaks
from .registers import VectorRegTile, rounded


class SplitContext:
    """One thread's part of every row; `share` is this CTA's first vector. Reads no memory.

    more   further inputs, whose rows start as far behind a vector's boundary as those of x
    fill   the value of columns outside the matrix
    merge  what a part of a row is, and how parts merge
    Shared memory holds a row's `pairs` of the warps that reduce it, and its `totals` over all CTAs.
    """

    def __init__(
        self,
        config: SplitTileConfig,
        x: cute.Tensor,
        y: cute.Tensor,
        workspace: cute.Tensor,
        more: tuple[cute.Tensor, ...] = (),
        fill: float = -math.inf,
        merge: type = Peaks,
    ):
        self.config, self.x, self.y, self.words, self.merge = config, x, y, workspace.iterator, merge
        self.inputs, self.fill = (x, *more), x.element_type(fill)
        self.thread = cute.arch.thread_idx()[0]
        self.cta, self.crew, self.rows = cute.arch.block_idx()[0], Int32(0), x.shape[0]
        self.number = None
        if config.crews > 1:
            block, other, _ = cute.arch.block_idx()
            self.cta, self.crew = (other, block) if config.is_spread else (block % config.ctas, block // config.ctas)
            self.rows = (self.rows + (config.crews - 1) - self.crew) // config.crews
            self.words = self.words if config.clustered else self.words + self.crew * config.crew_words
        self.courier = (self.thread - config.threads) // WARP
        self.is_worker = self.thread < config.threads
        self.share = self.cta * config.cta_vectors
        self.memory = cutlass.memory.SmemAllocator()
        pairs = cute.make_layout((merge.kept, config.workers // WARP, config.held))
        self.pairs = self.memory.allocate_tensor(Float32, pairs, byte_alignment=16)
        self.totals = self.memory.allocate_tensor(Float32, cute.make_layout((2, config.slots)), byte_alignment=16)

    def of(self, number: Int32) -> SplitContext:
        """This of one row of the matrix."""
        found = copy.copy(self)
        found.number = number
        return found

    def row(self, number: Int32) -> Int32:
        """The row of the matrix that is the crew's row of a number."""
        if self.number is not None:
            return self.number
        return number if self.config.crews == 1 else number * self.config.crews + self.crew

    def shift(self, row: Int32) -> Int32:
        """Elements between the last boundary and the first element of a row."""
        if not self.config.lead:
            return Int32(0)
        size = self.config.itemsize
        address = self.x.iterator.toint() + Int64(self.row(row)) * (self.x.stride[0] * size)
        return (Int32(address) & (self.config.boundary - 1)) >> (size.bit_length() - 1)

    def column(self, index: Int32, shift: Int32) -> Int32:
        """The column of the first element of vector number `index` of this CTA's share."""
        return (self.share + index) * self.config.vector - shift

    def whole(self, index: Int32, shift: Int32):
        """Whether that vector lies wholly in the row and in the share."""
        config = self.config
        column = self.column(index, shift)
        inside = (index < config.cta_vectors) & (column + config.vector <= config.columns)
        return inside & (column >= 0) if config.lead else inside

    def readable(self, row: Int32, shift: Int32) -> tuple[Int32, Int32]:
        """The first of this CTA's vectors of a row that lies in the matrix whole, and the one after the last."""
        config, first, count = self.config, Int32(0), Int32(self.config.columns // self.config.vector)
        if config.lead:
            matrix, size = self.x.iterator.toint(), config.itemsize
            address = matrix + Int64(self.row(row)) * (self.x.stride[0] * size) - shift * size
            before = shift // config.vector
            before += Int32(address + before * VECTOR_BYTES < matrix)
            first = cutlass.select_(self.share == 0, before, first)
            count = (config.columns + shift + config.vector - 1) // config.vector
            count -= Int32(address + Int64(count) * VECTOR_BYTES > end_of(self.x))
        return first, cutlass.min(config.cta_vectors, count - self.share)

    def edges(self, index: Int32, shift: Int32, turn: int | None = None) -> tuple | None:
        """The `edges` of `edge_copy` for that vector, of that turn; None where vectors are whole or absent."""
        config, column = self.config, self.column(index, shift)
        sides = (True, True) if turn is None else config.sides(turn)
        exists = (index < config.cta_vectors) & (column < config.columns)
        return None if config.aligned or not any(sides) else (exists, column, config.columns, sides)

    def elements(self, first: Int32, last: Int32, shift: Int32) -> Float32:
        """How many elements a row has from vector `first` up to `last`, which are numbered from the row's first one on."""
        most, vector = self.config.columns, self.config.vector
        ends = [cutlass.max(cutlass.min(Int32(index * vector - shift), most), 0) for index in (first, last)]
        return Float32(ends[1] - ends[0])

    def place(self, matrix: cute.Tensor, row: Int32, column: Int32) -> cute.Tensor:
        """The vector of a matrix that starts at a column; 64-bit arithmetic where the matrix's strides have 64 bits."""
        if self.config.aligned:
            column = cute.assume(column, divby=self.config.vector)
        pointer = matrix.iterator + cute.crd2idx((self.row(row), column), matrix.layout)
        return cute.make_tensor(pointer, cute.make_layout(self.config.vector))

    def word(self, row: Int32, of: int | Int32, first: int = 0) -> cute.Pointer:
        """The two words of a row's pair: of CTA number `of`, or with first = config.ctas of team number `of`."""
        config = self.config
        slot = row % config.slots * (config.ctas + config.teams) + first + of
        return self.words + (LINE_WORDS + 2 * slot)


def registers(context: SplitContext, count: int) -> list[VectorRegTile]:
    """Registers for `count` vectors of each input."""
    return [VectorRegTile(x.element_type, context.config.vector, count) for x in context.inputs]


def totals(context: SplitContext, row: Int32) -> tuple[Float32, Float32]:
    """What `merge.whole` made of a row's pair, as `fetch` stored it."""
    place = row % context.config.slots
    return context.totals[0, place], context.totals[1, place]


@cute.jit
def load(context: SplitContext, row: Int32, index: Int32, shift: Int32, target: cute.Tensor):
    """Vector number `index` of a row to registers; `fill` where the row has none."""
    target.fill(context.fill)
    source = context.place(context.x, row, context.column(index, shift))
    atom = loading(context.x.element_type)
    bounded_copy(atom, source, target, context.whole(index, shift), context.edges(index, shift))


@cute.jit
def store(context: SplitContext, place: tuple, values: cute.TensorSSA, first: cute.Pointer | None = None, turn: int | None = None):
    """Round float32 values to the output's dtype, to a vector of a row, where the row has it.

    place  (row, number of the vector, shift)
    first  where rows are alike: the thread's first vector; turn: of the thread's vectors, the number of this one
    """
    (row, index, shift), config, dtype = place, context.config, context.y.element_type
    target, whole = context.place(context.y, row, context.column(index, shift)), context.whole(index, shift)
    if const_expr(first is not None):
        target = cute.make_tensor(first + turn * (config.workers * config.vector), target.layout)
    elif const_expr(not config.aligned):
        whole = whole & (target.iterator.toint() % VECTOR_BYTES == 0)
    bounded_copy(storing(dtype), rounded(values, dtype), target, whole, context.edges(index, shift, turn))


@cute.jit
def leave_pair(context: SplitContext, row: Int32, thread: Int32, part: tuple):
    """Store a warp's part of a row for `publish`, its pair, and the count if `merge` asks for it; thread: of the row's."""
    pairs, place = context.pairs, row % context.config.held
    if thread % WARP == 0:
        for i in cutlass.range_constexpr(len(part)):
            pairs[i, thread // WARP, place] = part[i]


def first_tag(context: SplitContext) -> Int32:
    """The tag of the launch's row 0. A CTA sends its first pair only when all of its warps that use the tag have read it."""
    return Int32(cute.arch.load(context.words, Int64)) + 1


@cute.jit
def publish(context: SplitContext, row: Int32, tag: Int32):
    """Send the CTA's pair of a row; tag: the row's."""
    first = const_expr(context.config.ctas if context.config.team == 1 else 0)
    send(context, context.word(row, context.cta, first), tag, merged(context, row))


@cute.jit
def merged(context: SplitContext, row: Int32) -> tuple[Float32, Float32]:
    """The CTA's pair of a row, of its warps' pairs."""
    config, pairs, merge, lane = context.config, context.pairs, context.merge, context.thread % WARP
    warps = const_expr(config.workers // WARP)
    lanes = const_expr(max(warps, config.ctas if config.clustered else 1))  # in a cluster, each of these sends the pair
    place, mine = row % config.held, cutlass.min(lane, warps - 1)
    nothing = (*merge.nothing, 0.0)
    part = [cutlass.select_(lane == mine, pairs[i, mine, place], Float32(nothing[i])) for i in range(merge.kept)]
    whole = context.elements(context.share, context.share + config.cta_vectors, context.shift(row))
    return merge.over_warp(part[-1], *part[:2], whole, lanes)


@cute.jit
def relay(context: SplitContext, row: Int32, tag: Int32):
    """In the first CTA of a team, merge its pairs and send them to all."""
    config = context.config
    team, rank = context.cta // config.team, context.cta % config.team
    own, out = context.word(row, context.cta), context.word(row, team, config.ctas)
    members, span = cutlass.min(config.team, config.ctas - context.cta), (context.cta, 1, context.shift(row))
    if rank == 0:
        send(context, out, tag, collect(context, own, members, tag, config.team, span))


@cute.jit
def fetch(context: SplitContext, row: Int32, tag: Int32, direct: cutlass.Constexpr[bool] = False):
    """Wait for the pairs of a row and store its totals: from the teams' pairs, or with `direct` from those of all CTAs."""
    config, lane, totals = context.config, context.thread % WARP, context.totals
    own = const_expr(direct and config.team > 1)
    place, senders = row % config.slots, const_expr(config.ctas if own else config.teams)
    first = context.word(row, 0, 0 if own else config.ctas)
    span = (0, const_expr(1 if own else config.team), context.shift(row))
    whole = context.merge.whole(*collect(context, first, Int32(senders), tag, senders, span))
    if lane == 0:
        totals[0, place], totals[1, place] = whole


@cute.jit
def send(context: SplitContext, place: cute.Pointer, tag: Int32, pair: tuple):
    """Write a pair with its tag, by one thread of the warp."""
    if context.thread % WARP == 0:
        put(place, tag, pair)


def put(place: cute.Pointer, tag: Int32, pair: tuple):
    """Write a pair with its tag: two words at once."""
    words = [(Int64(tag) << 32) | (Int64(value.bitcast(Int32)) & Int64(0xFFFFFFFF)) for value in pair]
    cute.arch.inline_ptx("st.relaxed.gpu.global.v2.b64 [{$r0}], {{$r1}, {$r2}};", read_only_args=[place.toint(), *words])


def peek(place: cute.Pointer) -> tuple[Int64, Int64]:
    """The two words of a pair as they are now."""
    return cute.arch.inline_ptx(
        "ld.relaxed.gpu.global.v2.b64 {{$w0}, {$w1}}, [{$r0}];", write_only_types=[Int64, Int64], read_only_args=[place.toint()]
    )


@cute.jit
def collect(
    context: SplitContext, place: cute.Pointer, count: Int32, tag: Int32, most: cutlass.Constexpr[int], span: tuple
) -> tuple[Float32, Float32]:
    """The merged part of `count` neighbouring pairs, at most `most`, once all of them carry the tag; by one whole warp.

    span  the first pair's first CTA, CTAs per pair, the row's shift
    """
    merge, lane, turns = context.merge, context.thread % WARP, const_expr(ceil_div(most, WARP))
    words = cute.make_rmem_tensor((2, turns), Int64)
    for turn in cutlass.range_constexpr(turns):
        words[0, turn], words[1, turn] = peek(place + 2 * cutlass.min(lane + turn * WARP, count - 1))
    start, each, whole = span[0] * context.config.cta_vectors, span[1] * context.config.cta_vectors, None
    for turn in cutlass.range_constexpr(turns):
        one, other, index = words[0, turn], words[1, turn], lane + turn * WARP
        mine = place + 2 * cutlass.min(index, count - 1)
        while (Int32(one >> 32) != tag) | (Int32(other >> 32) != tag):
            one, other = peek(mine)
        exists = index < count
        first = start + index * each
        size = cutlass.select_(exists, context.elements(first, first + each, span[2]), Float32(0.0))
        part = [cutlass.select_(exists, number(w), Float32(n)) for w, n in zip((one, other), merge.nothing, strict=True)]
        whole = (size, *part) if const_expr(whole is None) else merge.join(whole, (size, *part))
    return merge.over_warp(*whole, context.elements(start, start + count * each, span[2]), most)


def number(word: Int64) -> Float32:
    """The float32 of a word."""
    return Int32(word & Int64(0xFFFFFFFF)).bitcast(Float32)


def of_warp(context: SplitContext, warp: Int32, shift: Int32) -> Float32:
    """How many elements of a row a reducing warp has."""
    config, count, most = context.config, Float32(0.0), context.config.cta_vectors
    for turn in range(config.vectors_per_thread):
        first = warp * WARP + turn * config.workers
        ends = [context.share + cutlass.min(Int32(index), most) for index in (first, first + WARP)]
        count = count + context.elements(*ends, shift)
    return count


@cute.jit
def advance(context: SplitContext, tag: Int32, courier: int | Int32):
    """Store the last row's tag for the next launch. That courier does, once it has the pairs of all CTAs.

    A CTA sends its pairs only after it has read the old tag.
    """
    if (context.cta == 0) & (context.courier == courier) & (context.thread % WARP == 0):
        cute.arch.store(context.words, Int64(tag))
