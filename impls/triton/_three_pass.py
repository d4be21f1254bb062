"""A row a program in three passes over chunks, element by element."""

import triton
import triton.language as tl

from ._math import widen


@triton.jit
def three_pass(y_ptr, x_ptr, rows, vectors, x_row, x_column, VEC: tl.constexpr, BLOCK: tl.constexpr, CHUNKS: tl.constexpr):
    """Maximum, sum, output: each pass reads the row from memory. y is contiguous."""
    columns = vectors * VEC
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row * VEC
    y_ptr += row * columns
    lane = tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], -float("inf"), tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32)
    for chunk in range(CHUNKS):
        column = chunk * BLOCK + lane
        x = tl.load(x_ptr + column.to(tl.int64) * x_column, mask=column < columns, other=-float("inf"))
        highest = tl.maximum(highest, widen(x))
    maximum = tl.max(highest, axis=0)
    sums = tl.zeros_like(highest)
    for chunk in range(CHUNKS):
        column = chunk * BLOCK + lane
        x = tl.load(x_ptr + column.to(tl.int64) * x_column, mask=column < columns, other=-float("inf"))
        sums += tl.exp(widen(x) - maximum)
    total = tl.sum(sums, axis=0)
    for chunk in range(CHUNKS):
        column = chunk * BLOCK + lane
        x = tl.load(x_ptr + column.to(tl.int64) * x_column, mask=column < columns, other=-float("inf"))
        y = tl.exp(widen(x) - maximum) / total
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=column < columns)
