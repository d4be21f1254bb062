"""The Triton kernel of the roofs; imports triton, so only a factory imports it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def move_words(
    written: tl.tuple,
    together: tl.tuple,
    alone: tl.tuple,
    sink: tl.tensor,
    words: tl.tensor,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
    STREAM: tl.constexpr,
    PART: tl.constexpr,
    PERIOD: tl.constexpr,
    FLIP: tl.constexpr,
    COPIES: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Each written stream becomes the xor of those read together, inverted with FLIP; `sink` has programs' of those read alone,
    COPIES of each.

    Streams are `words` integers, of which a program moves BLOCK; WHOLE if BLOCK divides words.
    `sink` is None where nothing is read alone. Streams that are read together have words of the written ones' size; of the first
    of them, PART of each PERIOD words are read, and the others count as 0.
    Only the last program compares places with `words`: a mask that may end within a vector has every word read by itself.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    if WHOLE or first + BLOCK <= words:
        _move(written, together, alone, sink, first, words, BLOCK, True, STREAM, PART, PERIOD, FLIP, COPIES, LANES)
    else:
        _move(written, together, alone, sink, first, words, BLOCK, False, STREAM, PART, PERIOD, FLIP, COPIES, LANES)


@triton.jit  # type: ignore[untyped-decorator]
def _move(
    written: tl.tuple,
    together: tl.tuple,
    alone: tl.tuple,
    sink: tl.tensor,
    first: tl.tensor,
    words: tl.tensor,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
    STREAM: tl.constexpr,
    PART: tl.constexpr,
    PERIOD: tl.constexpr,
    FLIP: tl.constexpr,
    COPIES: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    at = first + tl.arange(0, BLOCK)
    inside = None if WHOLE else at < words
    if len(together) > 0:
        if PART < PERIOD:
            read = at % PERIOD < PART if WHOLE else (at < words) & (at % PERIOD < PART)
            moved = tl.load(together[0] + at, mask=read, other=0, eviction_policy="evict_first" if STREAM else "")
        else:
            moved = tl.load(together[0] + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
        for number in tl.static_range(1, len(together)):
            moved ^= tl.load(together[number] + at, mask=inside, eviction_policy="evict_first" if STREAM else "")
        if FLIP:
            moved = ~moved
        for number in tl.static_range(len(written)):
            tl.store(written[number] + at, moved, mask=inside, cache_modifier=".cs" if STREAM else "")
    if len(alone) > 0:
        total = tl.zeros((), tl.int64)
        for number in tl.static_range(len(alone)):
            seen = tl.load(
                alone[number] + at, mask=inside, other=None if WHOLE else 0, eviction_policy="evict_first" if STREAM else ""
            )
            total ^= tl.xor_sum(seen.to(tl.int64), axis=0)
        lane = tl.arange(0, LANES)
        place = tl.program_id(0).to(tl.int64) * COPIES + lane
        tl.store(sink + place, total + tl.zeros_like(place), mask=lane < COPIES, cache_modifier=".cs" if STREAM else "")
