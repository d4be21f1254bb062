"""The Triton kernel of the roofs; imports triton, so only a factory imports it."""

import triton
import triton.language as tl


@triton.jit
def move_words(
    written: tl.tuple,
    together: tl.tuple,
    alone: tl.tuple,
    beside: tl.tuple,
    counts: tl.tuple,
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
    OTHERS: tl.constexpr,
    EACH: tl.constexpr,
    STEP: tl.constexpr,
) -> None:
    """Each written stream becomes the xor of those read together, inverted with FLIP, in words of its own; `sink` has programs' of
    those read alone or beside, COPIES of each.

    Streams are `words` integers, of which a program moves BLOCK; WHOLE if BLOCK divides words.
    Streams that are read together have words of one size; of the first of them, PART of each PERIOD words are read,
    and the others count as 0. Of streams `beside`, which have `counts` words of 8 bytes, the first OTHERS programs read EACH, in
    turns of STEP.
    Only the last program compares places with `words`: a mask that may end within a vector has every word read by itself.
    """
    first = (tl.program_id(0) - OTHERS).to(tl.int64) * BLOCK
    if OTHERS > 0:  # noqa: SIM102 (known at compile time)
        if first < 0:
            _leave(sink, _read(beside, counts, STREAM, EACH, STEP), STREAM, COPIES, LANES)
            return
    if WHOLE or first + BLOCK <= words:
        _move(written, together, alone, sink, first, words, BLOCK, True, STREAM, PART, PERIOD, FLIP, COPIES, LANES)
    else:
        _move(written, together, alone, sink, first, words, BLOCK, False, STREAM, PART, PERIOD, FLIP, COPIES, LANES)


@triton.jit
def _read(beside: tl.tuple, counts: tl.tuple, STREAM: tl.constexpr, EACH: tl.constexpr, STEP: tl.constexpr) -> tl.tensor:
    seen = tl.zeros((STEP,), tl.int64)
    for turn in tl.static_range((EACH + STEP - 1) // STEP):
        own = turn * STEP + tl.arange(0, STEP)
        at = tl.program_id(0).to(tl.int64) * EACH + own
        for number in tl.static_range(len(beside)):
            inside = (own < EACH) & (at < counts[number])
            seen ^= _load(beside[number] + at, inside, 0, STREAM)
    return tl.xor_sum(seen, axis=0)


@triton.jit
def _fitted(x: tl.tensor, TYPE: tl.constexpr) -> tl.tensor:
    """Integers of a type: of fewer bits, halves are folded onto one another, and none is lost; of more, the same numbers."""
    for turn in tl.static_range(3):
        if x.dtype.primitive_bitwidth >> turn > TYPE.primitive_bitwidth:
            x ^= x >> (x.dtype.primitive_bitwidth >> (turn + 1))
    return x.to(TYPE)


@triton.jit
def _load(at: tl.tensor, mask: tl.tensor, other: tl.constexpr, STREAM: tl.constexpr) -> tl.tensor:
    return tl.load(at, mask=mask, other=other, eviction_policy="evict_first" if STREAM else "")


@triton.jit
def _leave(sink: tl.tensor, total: tl.tensor, STREAM: tl.constexpr, COPIES: tl.constexpr, LANES: tl.constexpr) -> None:
    lane = tl.arange(0, LANES)
    place = tl.program_id(0).to(tl.int64) * COPIES + lane
    tl.store(sink + place, total + tl.zeros_like(place), mask=lane < COPIES, cache_modifier=".cs" if STREAM else "")


@triton.jit
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
            moved = _load(together[0] + at, read, 0, STREAM)
        else:
            moved = _load(together[0] + at, inside, None, STREAM)
        for number in tl.static_range(1, len(together)):
            moved ^= _load(together[number] + at, inside, None, STREAM)
        if FLIP:
            moved = ~moved
        for number in tl.static_range(len(written)):
            made = _fitted(moved, written[number].dtype.element_ty)
            tl.store(written[number] + at, made, mask=inside, cache_modifier=".cs" if STREAM else "")
    if len(alone) > 0:
        total = tl.zeros((), tl.int64)
        for number in tl.static_range(len(alone)):
            seen = _load(alone[number] + at, inside, None if WHOLE else 0, STREAM)
            total ^= tl.xor_sum(seen.to(tl.int64), axis=0)
        _leave(sink, total, STREAM, COPIES, LANES)
