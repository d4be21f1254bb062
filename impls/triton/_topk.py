"""The k largest of short rows, one after the other, as integers that hold a value and its column, and their softmax."""

from __future__ import annotations

import triton
import triton.language as tl

from ._math import power, widen


@triton.jit
def topk(
    weight_ptr, expert_ptr, x_ptr, columns, rows,
    K: tl.constexpr, KEPT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, RENORMALISED: tl.constexpr,
):  # fmt: skip
    """ROWS dense rows a program, each within BLOCK columns; KEPT is a power of two from K on."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    keys = tl.where(column < columns, key_of(x, column), lowest(x))
    place = tl.arange(0, KEPT)[None, :]
    kept = tl.zeros([ROWS, KEPT], keys.dtype)
    for number in tl.static_range(K):
        best = tl.max(keys, axis=1, keep_dims=True)
        kept = tl.where(place == number, best, kept)
        keys = tl.where(keys == best, lowest(x), keys)
    value, expert = parts(kept, x.dtype)
    value = tl.where(place < K, widen(value), -float("inf"))
    top = tl.max(value, axis=1, keep_dims=True)
    share = power(value - top, False)
    if RENORMALISED:
        total = tl.sum(tl.where(place < K, share, 0.0), axis=1, keep_dims=True)
    else:
        total = tl.sum(tl.where(column < columns, power(widen(x) - top, False), 0.0), axis=1, keep_dims=True)
    written = (row < rows) & (place < K)
    tl.store(weight_ptr + row * K + place, share / total, mask=written)
    tl.store(expert_ptr + row * K + place, expert, mask=written)


@triton.jit
def key_of(x, column):
    """Integers in the order of the values, of equal ones the first column first; twice as wide as the values."""
    if x.dtype.primitive_bitwidth == 16:
        bits = x.to(tl.int16, bitcast=True).to(tl.int32)
        return ((bits ^ ((bits >> 15) & 0x7FFF)) << 16) | (0xFFFF - column)
    else:
        bits = x.to(tl.int32, bitcast=True).to(tl.int64)
        return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)) << 32) | (0xFFFF - column)


@triton.jit
def lowest(x):
    """Below every key of a number."""
    if x.dtype.primitive_bitwidth == 16:
        return tl.full(x.shape, -(2**31), tl.int32)
    else:
        return tl.full(x.shape, -(2**63), tl.int64)


@triton.jit
def parts(key, dtype: tl.constexpr):
    """The values and columns of keys."""
    column = 0xFFFF - (key & 0xFFFF).to(tl.int32)
    if dtype.primitive_bitwidth == 16:
        bits = key >> 16
        return (bits ^ ((bits >> 15) & 0x7FFF)).to(tl.int16).to(dtype, bitcast=True), column
    else:
        bits = key >> 32
        return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int32).to(dtype, bitcast=True), column
