"""Rows that are read once or twice in chunks: losses over a vocabulary, the gradient of log_softmax.

A chunk is LANES vectors of V neighbouring elements. Every lane keeps a (maximum, sum) of its own, so that the first read needs no
exchange between threads; the second begins with the chunk that was read last, and its stores stream. Rows are dense.
"""

# ruff: noqa: RUF005 -- Triton knows no starred tuple

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
            held = held + (part,)
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
def log_softmax_backward(
    y_ptr, x_ptr, other_ptr, columns,
    CHUNKS: tl.constexpr, LANES: tl.constexpr, V: tl.constexpr, HELD: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """dx = dy - exp(y) sum(dy), of x = dy and other = y; only dy is read twice, but for HELD chunks."""
    start = tl.program_id(0).to(tl.int64) * columns
    x_ptr += start
    other_ptr += start
    y_ptr += start
    held = ()
    for chunk in tl.static_range(HELD):
        column = place(chunk, LANES, V)
        part = tl.load(x_ptr + column, mask=column < columns, other=0.0, eviction_policy="evict_first")
        held = held + (part,)
    sums = tl.zeros([LANES], tl.float32)
    for chunk in tl.static_range(HELD):
        sums += tl.sum(widen(held[chunk]), axis=1)
    for chunk in range(HELD, CHUNKS):
        sums += tl.sum(read(x_ptr, place(chunk, LANES, V), columns, 0.0, "evict_last"), axis=1)
    total = tl.sum(sums, axis=0)
    zero = tl.abs(total) < -1.0
    for number in range(CHUNKS - HELD):
        column = place(CHUNKS - 1 - number, LANES, V)
        pull(y_ptr, other_ptr, column, columns, read(x_ptr, column, columns, 0.0, "evict_first"), total)
    for chunk in tl.static_range(HELD):
        pull(y_ptr, other_ptr, place(chunk, LANES, V), columns, widen(opaque(held[chunk], zero, PACKED)), total)


@triton.jit
def pull(y_ptr, other_ptr, column, columns, dy, total):
    """Write dx of some dy."""
    dx = dy - power(read(other_ptr, column, columns, -float("inf"), "evict_first"), True) * total
    tl.store(y_ptr + column, dx.to(y_ptr.dtype.element_ty), mask=column < columns, cache_modifier=".cs")
