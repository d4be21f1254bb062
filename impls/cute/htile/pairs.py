"""Pairs of rows that are split over the whole GPU: a CTA's, merged from its warps', and a row's, through global memory.

A few warps of each CTA, the couriers, wait for pairs while the others load, reduce and store: `publish` sends a CTA's pair to the
first CTA of its team, `relay` sends the team's pair to all, `fetch` reads all. A word of a pair that carries the row's tag has
arrived (the idea of NCCL's LL protocol); tags continue from launch to launch.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr

from .config import WARP, ceil_div
from .split import SplitContext


def totals(context: SplitContext, row: Int32) -> tuple[Float32, Float32]:
    """What `merge.whole` made of a row's pair, as `fetch` stored it."""
    place = row % context.config.slots
    return context.totals[0, place], context.totals[1, place]


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
    config, most = context.config, context.config.cta_vectors
    count = Float32((config.vectors_per_thread - len(config.outer_turns)) * WARP * config.vector)
    for turn in config.outer_turns:
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
