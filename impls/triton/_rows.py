"""Rows that are read once or twice in chunks: losses over a vocabulary, softmax under masks, the gradient of log_softmax.

A chunk is LANES vectors of V neighbouring elements. Every lane keeps a (maximum, sum) of its own, so that the first read needs no
exchange between threads; the second begins with the chunk that was read last, and its stores stream. Rows are dense.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._math import opaque, power, result_base, result_power, result_scale, widen


@triton.jit
def place(chunk, LANES: tl.constexpr, V: tl.constexpr):
    """The columns of a chunk, (LANES, V)."""
    return (chunk * LANES + tl.arange(0, LANES)[:, None]) * V + tl.arange(0, V)[None, :]


@triton.jit
def read(row_ptr, column, columns, beyond, POLICY: tl.constexpr):
    """Columns of a row in float32, with `beyond` past its end."""
    return widen(tl.load(row_ptr + column, mask=column < columns, other=beyond, eviction_policy=POLICY))


@triton.jit
def join(maximum, total, x):
    """Each lane's (maximum, total) after V more values; a lane that has seen nothing but -inf subtracts 0 and not -inf."""
    top = tl.maximum(maximum, tl.max(x, axis=1))
    base = tl.where(top == -float("inf"), 0.0, top)
    total = total * power(maximum - base, True) + tl.sum(power(x - base[:, None], True), axis=1)
    return top, total


@triton.jit
def whole(maximum, total):
    """The maximum of a row and its sum of exponentials, from those of its lanes."""
    top = tl.max(maximum, axis=0)
    return top, tl.sum(total * power(tl.where(maximum == top, 0.0, maximum - top), True), axis=0)


@triton.jit
def loss(
    loss_ptr, dx_ptr, x_ptr, target_ptr, columns, IGNORE: tl.constexpr, SMOOTHING: tl.constexpr, Z: tl.constexpr,
    CHUNKS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr, HELD: tl.constexpr, PACKED: tl.constexpr,
    GRADIENT: tl.constexpr,
):  # fmt: skip
    """A row's cross-entropy, smoothed and with Z log(sum)^2 added, and its gradient: of HELD chunks that stay in registers, and in
    a second read of the others.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * columns
    dx_ptr += row * columns
    out: tl.constexpr = dx_ptr.dtype.element_ty
    target = tl.load(target_ptr + row)
    if target == IGNORE:
        tl.store(loss_ptr + row, 0.0)
        if GRADIENT:
            for chunk in range(CHUNKS):
                column = place(chunk, LANES, V)
                tl.store(dx_ptr + column, tl.zeros([LANES, V], out), mask=column < columns, cache_modifier=".cs")
    else:
        right = tl.load(x_ptr + target).to(tl.float32)
        maximum = tl.full([LANES], -float("inf"), tl.float32)
        total = tl.zeros([LANES], tl.float32)
        even = tl.zeros([LANES], tl.float32)
        first: tl.constexpr = "evict_last" if GRADIENT else "evict_first"
        held = ()
        for chunk in tl.static_range(HELD):
            column = place(chunk, LANES, V)
            part = tl.load(x_ptr + column, mask=column < columns, other=-float("inf"), eviction_policy="evict_first")
            held = held + (part,)  # noqa: RUF005 -- Triton knows no starred tuple
            maximum, total = join(maximum, total, widen(part))
            if SMOOTHING > 0:
                even += tl.sum(tl.where(column < columns, widen(part) * (SMOOTHING / columns), 0.0), axis=1)
        for chunk in range(HELD, CHUNKS):
            column = place(chunk, LANES, V)
            x = read(x_ptr, column, columns, -float("inf"), first)
            maximum, total = join(maximum, total, x)
            if SMOOTHING > 0:
                even += tl.sum(tl.where(column < columns, x * (SMOOTHING / columns), 0.0), axis=1)
        top, total = whole(maximum, total)
        lse = top + tl.log(total)
        value = (1.0 - SMOOTHING) * (lse - right)
        grown = 1.0
        if SMOOTHING > 0:
            value += SMOOTHING * lse - tl.sum(even, axis=0)
        if Z > 0:
            value += Z * lse * lse
            grown += 2.0 * Z * lse
        tl.store(loss_ptr + row, value)
        if GRADIENT:
            base = result_base(top, out, True, False)
            scale = result_scale(total, top, base, True, False) * grown
            zero = total < 0.0
            for chunk in range(CHUNKS - HELD):
                column = place(CHUNKS - 1 - chunk, LANES, V)
                x = read(x_ptr, column, columns, -float("inf"), "evict_first")
                put(dx_ptr, column, columns, x - base, scale, target, SMOOTHING)
            for chunk in tl.static_range(HELD):
                x = widen(opaque(held[chunk], zero, PACKED))
                put(dx_ptr, place(chunk, LANES, V), columns, x - base, scale, target, SMOOTHING)


@triton.jit
def put(dx_ptr, column, columns, difference, scale, target, SMOOTHING: tl.constexpr):
    """Write the gradient of some logits."""
    out: tl.constexpr = dx_ptr.dtype.element_ty
    dx = result_power(difference, out, True) * scale - SMOOTHING / columns
    dx = tl.where(column == target, dx - (1.0 - SMOOTHING), dx)
    tl.store(dx_ptr + column, dx.to(out), mask=column < columns, cache_modifier=".cs")


@triton.jit
def loss_backward(
    dx_ptr, x_ptr, target_ptr, lse_ptr, dloss_ptr, columns, IGNORE: tl.constexpr, SMOOTHING: tl.constexpr,
    Z: tl.constexpr, CHUNKS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """The gradient of a chunk of logits from the logarithm of their row's sum; each chunk is a program."""
    row = (tl.program_id(0) // CHUNKS).to(tl.int64)
    column = place(tl.program_id(0) % CHUNKS, LANES, V)
    out: tl.constexpr = dx_ptr.dtype.element_ty
    target, lse, dloss = tl.load(target_ptr + row), tl.load(lse_ptr + row), tl.load(dloss_ptr + row)
    base = result_base(lse, out, True, False)
    grown = result_scale(1.0, lse, base, True, False) * (1.0 + 2.0 * Z * lse)
    x = read(x_ptr + row * columns, column, columns, -float("inf"), "evict_first")
    dx = result_power(x - base, out, True) * grown - SMOOTHING / columns
    dx = tl.where(column == target, dx - (1.0 - SMOOTHING), dx) * dloss
    dx = tl.where(target == IGNORE, 0.0, dx)
    tl.store(dx_ptr + row * columns + column, dx.to(out), mask=column < columns, cache_modifier=".cs")


@triton.jit
def masked(
    y_ptr, x_ptr, other_ptr, columns, SCALE: tl.constexpr,
    CHUNKS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr, ADDS: tl.constexpr,
):  # fmt: skip
    """A row's softmax of SCALE x, where a mask of bools is True, or plus a mask that is -inf where nothing is seen."""
    start = tl.program_id(0).to(tl.int64) * columns
    maximum = tl.full([LANES], -float("inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for chunk in range(CHUNKS):
        column = place(chunk, LANES, V)
        x, seen = visible(x_ptr + start, other_ptr + start, column, columns, SCALE, ADDS, "evict_last")
        maximum, total = join(maximum, total, x)
    top, total = whole(maximum, total)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(top, out, True, False)
    scale = result_scale(total, top, base, True, False)
    for chunk in range(CHUNKS):
        column = place(CHUNKS - 1 - chunk, LANES, V)
        x, seen = visible(x_ptr + start, other_ptr + start, column, columns, SCALE, ADDS, "evict_first")
        y = tl.where(seen, result_power(x - base, out, True) * scale, 0.0)
        tl.store(y_ptr + start + column, y.to(out), mask=column < columns, cache_modifier=".cs")


@triton.jit
def visible(x_ptr, mask_ptr, column, columns, SCALE: tl.constexpr, ADDS: tl.constexpr, POLICY: tl.constexpr):
    """Logits, -inf where nothing is seen, and where something is."""
    x = read(x_ptr, column, columns, -float("inf"), POLICY) * SCALE
    if ADDS:
        mask = read(mask_ptr, column, columns, -float("inf"), POLICY)
        x += mask
        seen = mask != -float("inf")
    else:
        seen = tl.load(mask_ptr + column, mask=column < columns, other=0, eviction_policy=POLICY) != 0
    return tl.where(seen, x, -float("inf")), seen


@triton.jit
def log_softmax_backward(y_ptr, x_ptr, other_ptr, columns, CHUNKS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr):
    """dx = dy - exp(y) sum(dy), of x = dy and other = y; only dy is read twice."""
    start = tl.program_id(0).to(tl.int64) * columns
    sums = tl.zeros([LANES], tl.float32)
    for chunk in range(CHUNKS):
        sums += tl.sum(read(x_ptr + start, place(chunk, LANES, V), columns, 0.0, "evict_last"), axis=1)
    total = tl.sum(sums, axis=0)
    for chunk in range(CHUNKS):
        column = place(CHUNKS - 1 - chunk, LANES, V)
        dy = read(x_ptr + start, column, columns, 0.0, "evict_first")
        dx = dy - power(read(other_ptr + start, column, columns, -float("inf"), "evict_first"), True) * total
        tl.store(y_ptr + start + column, dx.to(y_ptr.dtype.element_ty), mask=column < columns, cache_modifier=".cs")


@triton.jit
def causal(
    y_ptr, x_ptr, last_ptr, slope_ptr, columns, SCALE: tl.constexpr, WINDOW: tl.constexpr, ALIBI: tl.constexpr,
    CHUNKS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """A row's softmax of SCALE x - ALIBI slope distance over WINDOW columns up to `last`; other chunks are not read."""
    row = tl.program_id(0).to(tl.int64)
    start, last, slope = row * columns, tl.load(last_ptr + row).to(tl.int32), tl.load(slope_ptr + row) * ALIBI
    begin, end = tl.maximum(last + 1 - WINDOW, 0) // (LANES * V), tl.cdiv(tl.maximum(last + 1, 0), LANES * V)
    maximum = tl.full([LANES], -float("inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for chunk in range(begin, end):
        x = near(x_ptr + start, place(chunk, LANES, V), columns, last, slope, SCALE, WINDOW, "evict_last")
        maximum, total = join(maximum, total, x)
    top, total = whole(maximum, total)
    out: tl.constexpr = y_ptr.dtype.element_ty
    base = result_base(top, out, True, False)
    scale = result_scale(total, top, base, True, False)
    for number in range(CHUNKS):
        chunk = CHUNKS - 1 - number
        column = place(chunk, LANES, V)
        if (chunk >= begin) & (chunk < end):
            x = near(x_ptr + start, column, columns, last, slope, SCALE, WINDOW, "evict_first")
            y = tl.where(x == -float("inf"), 0.0, result_power(x - base, out, True) * scale)
            tl.store(y_ptr + start + column, y.to(out), mask=column < columns, cache_modifier=".cs")
        else:
            tl.store(y_ptr + start + column, tl.zeros([LANES, V], out), mask=column < columns, cache_modifier=".cs")


@triton.jit
def near(x_ptr, column, columns, last, slope, SCALE: tl.constexpr, WINDOW: tl.constexpr, POLICY: tl.constexpr):
    """Logits, -inf where nothing is seen; a vector of which nothing is seen is not read."""
    seen = (column <= last) & (column > last - WINDOW)
    wanted = (tl.max(seen.to(tl.int32), axis=1, keep_dims=True) > 0) & (column < columns)
    x = widen(tl.load(x_ptr + column, mask=wanted, other=0.0, eviction_policy=POLICY))
    return tl.where(seen, x * SCALE - slope * (last - column).to(tl.float32), -float("inf"))


@triton.jit
def ragged(y_ptr, x_ptr, ends_ptr, columns, SEGMENTS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr):
    """A segment's softmax; V divides all of x. Whole vectors are read, and written but for a segment's first and last."""
    program = tl.program_id(0)
    start = (program // SEGMENTS).to(tl.int64) * columns
    first = start + tl.load(ends_ptr + program - 1, mask=program % SEGMENTS > 0, other=0)
    base = first // V * V
    x_ptr += base
    y_ptr += base
    last = (start + tl.load(ends_ptr + program) - base).to(tl.int32)
    first = (first - base).to(tl.int32)
    chunks = tl.cdiv(tl.where(last > first, last, 0), LANES * V)
    maximum = tl.full([LANES], -float("inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for chunk in range(chunks):
        maximum, total = join(maximum, total, within(x_ptr, place(chunk, LANES, V), first, last, "evict_last"))
    top, total = whole(maximum, total)
    out: tl.constexpr = y_ptr.dtype.element_ty
    lowest = result_base(top, out, True, False)
    scale = result_scale(total, top, lowest, True, False)
    for number in range(chunks):
        column = place(chunks - 1 - number, LANES, V)
        y = result_power(within(x_ptr, column, first, last, "evict_first") - lowest, out, True) * scale
        is_whole = tl.min(((column >= first) & (column < last)).to(tl.int32), axis=1, keep_dims=True) > 0
        tl.store(y_ptr + column, y.to(out), mask=is_whole & (column >= 0), cache_modifier=".cs")
    edge = (tl.arange(0, 2) * ((last - 1) // V * V))[:, None] + tl.arange(0, V)[None, :]
    seen = (edge >= first) & (edge < last)
    x = widen(tl.load(x_ptr + edge, mask=seen, other=0.0))
    tl.store(y_ptr + edge, (result_power(x - lowest, out, True) * scale).to(out), mask=seen)


@triton.jit
def within(x_ptr, column, first, last, POLICY: tl.constexpr):
    """Columns from `first` to before `last`, and -inf."""
    seen = (column >= first) & (column < last)
    wanted = tl.max(seen.to(tl.int32), axis=1, keep_dims=True) > 0
    x = widen(tl.load(x_ptr + column, mask=wanted & (column >= 0), other=0.0, eviction_policy=POLICY))
    return tl.where(seen, x, -float("inf"))
