"""Softmax of what is seen of a row: under masks, or up to a last column. HELD chunks stay in registers.

A chunk is LANES vectors of V neighbouring elements. With EDGES rows begin and end within vectors, which are read whole.
"""

# ruff: noqa: RUF005 -- Triton knows no starred tuple

import triton
import triton.language as tl

from ._math import overlap, power, result_base, result_power, widen
from ._rows import join


@triton.jit
def spans(
    y_ptr, x_ptr, other_ptr, slope_ptr, columns, KIND: tl.constexpr, SCALE: tl.constexpr, WINDOW: tl.constexpr,
    ALIBI: tl.constexpr, CHUNKS: tl.constexpr, HELD: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr,
    EDGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The softmax of SCALE x - ALIBI slope distance over columns `first` to before `last`: no other vector is read, y is 0 there.

    KIND    of `other`: "bools" and "adds", a mask as x; "causal", the last column of each row
    WINDOW  columns that are seen of a causal row; 0 for all
    """
    if PDL:
        overlap()
    program = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    first, last, slope, start = 0, columns, 0.0, program * (columns // V) * V
    if KIND == "causal":
        last = tl.load(other_ptr + program).to(tl.int32) + 1
        if WINDOW > 0:
            first = tl.maximum(last - WINDOW, 0)
        if ALIBI > 0:
            slope = tl.load(slope_ptr + program) * ALIBI
    elif EDGES:
        start = program * columns // V * V
        first = (program * columns - start).to(tl.int32)
        last = first + columns
    x_ptr += start
    y_ptr += start
    if KIND == "bools" or KIND == "adds":
        other_ptr += start
    bounded: tl.constexpr = EDGES or WINDOW > 0
    begin, end = first // (LANES * V), tl.cdiv(last, LANES * V)
    out: tl.constexpr = y_ptr.dtype.element_ty
    each = tl.arange(0, LANES)[:, None]
    raw, values, powers = (), (), ()
    for i in tl.static_range(HELD):
        raw = raw + (fetch(x_ptr, other_ptr, (begin + i) * LANES + each, first, last, KIND, bounded, V),)
    if KIND == "causal":
        for chunk in range(begin):
            put(y_ptr, tl.zeros([LANES, V], out), chunk * LANES + each, first, last, columns, V, EDGES)
        for chunk in range(tl.maximum(begin, end), CHUNKS):
            put(y_ptr, tl.zeros([LANES, V], out), chunk * LANES + each, first, last, columns, V, EDGES)
    tops = tl.full([LANES], -float("inf"), tl.float32)
    totals = tl.zeros([LANES], tl.float32)
    for i in tl.static_range(HELD):
        value = tl.full([LANES, V], -float("inf"), tl.float32)
        if KIND != "causal" or begin + i < end:
            value = logits(raw[i], (begin + i) * LANES + each, first, last, slope, KIND, SCALE, ALIBI, bounded, V)
            tops = tl.maximum(tops, tl.max(value, axis=1))
        values = values + (value,)
    if CHUNKS > HELD:
        tops = tl.broadcast_to(tl.max(tops, axis=0), [LANES])
        for chunk in range(begin + HELD, end):
            read = fetch(x_ptr, other_ptr, chunk * LANES + each, first, last, KIND, bounded, V)
            value = logits(read, chunk * LANES + each, first, last, slope, KIND, SCALE, ALIBI, bounded, V)
            tops, totals = join(tops, totals, value)
    top = tl.max(tops, axis=0)
    base = result_base(tl.where(top == -float("inf"), 0.0, top), out, True, False)
    if CHUNKS > HELD:
        totals *= power(tops - base, True)
    for i in tl.static_range(HELD):
        found = tl.zeros([LANES, V], tl.float32)
        if begin + i < end:
            found = result_power(values[i] - base, out, True)
            totals += tl.sum(found, axis=1)
        powers = powers + (found,)
    total = tl.sum(totals, axis=0)
    scale = 1.0 / total
    for i in tl.static_range(HELD):
        if begin + i < end:
            put(y_ptr, powers[i] * scale, (begin + i) * LANES + each, first, last, columns, V, EDGES)
    again = begin + tl.where(total > 0.0, HELD, 0)  # NaN, or all is -inf: what is seen is told apart from what is not
    for number in range(end - again):
        lane = (end - 1 - number) * LANES + each
        read = fetch(x_ptr, other_ptr, lane, first, last, KIND, bounded, V)
        y = shares(read, lane, first, last, slope, base, scale, out, KIND, SCALE, ALIBI, bounded, V)
        put(y_ptr, y, lane, first, last, columns, V, EDGES)
    if EDGES and V > 1:
        lane = tl.arange(0, 2)[:, None] * ((last - 1) // V)
        column = lane * V + tl.arange(0, V)[None, :]
        read = fetch(x_ptr, other_ptr, lane, first, last, KIND, bounded, V)
        y = shares(read, lane, first, last, slope, base, scale, out, KIND, SCALE, ALIBI, bounded, V)
        tl.store(y_ptr + column, y.to(out), mask=(column >= first) & (column < last))


@triton.jit
def fetch(x_ptr, other_ptr, lane, first, last, KIND: tl.constexpr, BOUNDED: tl.constexpr, V: tl.constexpr):
    """Vectors of which something is seen, and their mask."""
    column = lane * V + tl.arange(0, V)[None, :]
    wanted = lane * V < last
    if BOUNDED:
        wanted &= lane * V + V > first
    wanted = tl.broadcast_to(wanted, column.shape)
    x = tl.load(x_ptr + column, mask=wanted, other=0.0, eviction_policy="evict_first")
    if KIND == "adds":
        return x, tl.load(other_ptr + column, mask=wanted, other=-float("inf"), eviction_policy="evict_first")
    elif KIND == "bools":
        return x, tl.load(other_ptr + column, mask=wanted, other=0, eviction_policy="evict_first")
    else:
        return x, x


@triton.jit
def logits(
    read, lane, first, last, slope,
    KIND: tl.constexpr, SCALE: tl.constexpr, ALIBI: tl.constexpr, BOUNDED: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """In float32, -inf where nothing is seen."""
    x, mask = read
    value = widen(x) * SCALE
    column = lane * V + tl.arange(0, V)[None, :]
    if KIND == "adds":
        value += widen(mask)
    elif KIND == "bools":
        value = tl.where(mask != 0, value, -float("inf"))
    elif ALIBI > 0:
        value -= slope * (last - 1 - column).to(tl.float32)
    if BOUNDED:
        value = tl.where(column >= first, value, -float("inf"))
    return tl.where(column < last, value, -float("inf"))


@triton.jit
def shares(
    read, lane, first, last, slope, base, scale, out: tl.constexpr,
    KIND: tl.constexpr, SCALE: tl.constexpr, ALIBI: tl.constexpr, BOUNDED: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """y of some vectors."""
    _, mask = read
    value = logits(read, lane, first, last, slope, KIND, SCALE, ALIBI, BOUNDED, V)
    y = result_power(value - base, out, True) * scale
    if KIND == "adds":
        y = tl.where(mask == -float("inf"), 0.0, y)
    elif KIND == "bools":
        y = tl.where(mask != 0, y, 0.0)
    elif KIND == "causal":
        y = tl.where(value == -float("inf"), 0.0, y)
    return y


@triton.jit
def put(y_ptr, y, lane, first, last, columns, V: tl.constexpr, EDGES: tl.constexpr):
    """Write whole vectors of a row, or between edges."""
    mask = (lane * V >= first) & (lane * V + V <= last) if EDGES else lane < columns // V
    column = lane * V + tl.arange(0, V)[None, :]
    tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=tl.broadcast_to(mask, column.shape), cache_modifier=".cs")
