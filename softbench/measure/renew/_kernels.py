"""The Triton kernels that renew buffers; imports triton, so only `softbench.measure.renew` imports it, in a worker.

Each serves many buffers in one launch: a table holds their addresses as int64, and the second axis of the grid is the index into
it. Words are integers as wide as an element, so that only `move_rows` depends on the dtype.
"""

import triton
import triton.language as tl


@triton.jit
def poison(table: tl.tensor, words: tl.tensor, WORD: tl.constexpr, BLOCK: tl.constexpr) -> None:
    """Set every bit of `words` words of every buffer: NaN in floating point, -1 in integers."""
    base = tl.load(table + tl.program_id(1)).to(tl.pointer_type(WORD))
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(base + at, tl.full((BLOCK,), -1, WORD), mask=at < words)


@triton.jit
def places(seed: tl.tensor, rows: tl.tensor, columns: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """A block of rows, and two random columns that differ in each of them where there are two."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a, b, _, _ = tl.randint4x(seed, (tl.program_id(1) * rows + row).to(tl.int32))
    first = (a.to(tl.int64) & 0x7FFFFFFF) % columns
    further = (b.to(tl.int64) & 0x7FFFFFFF) % (columns - 1 + (columns == 1)) + 1
    return row, first, (first + further) % columns


@triton.jit(do_not_specialize=["seed", "rows", "columns"])
def move_rows(
    table: tl.tensor,
    seed: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    STEP: tl.constexpr,
    ELEMENT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Move one random element of each row by STEP, towards 0 and past it."""
    base = tl.load(table + tl.program_id(1)).to(tl.pointer_type(ELEMENT))
    row, column, _ = places(seed, rows, columns, BLOCK)
    at = base + row * row_stride + column * column_stride
    x = tl.load(at, mask=row < rows, other=0.0).to(tl.float32)
    tl.store(at, tl.where(x > 0, x - STEP, x + STEP).to(ELEMENT), mask=row < rows)


@triton.jit(do_not_specialize=["seed", "rows", "columns"])
def swap_rows(
    table: tl.tensor,
    seed: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    ELEMENT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Swap two random elements of each row."""
    base = tl.load(table + tl.program_id(1)).to(tl.pointer_type(ELEMENT))
    row, first, second = places(seed, rows, columns, BLOCK)
    one, other = base + row * row_stride + first * column_stride, base + row * row_stride + second * column_stride
    x, y = tl.load(one, mask=row < rows), tl.load(other, mask=row < rows)
    tl.store(one, y, mask=row < rows)
    tl.store(other, x, mask=row < rows)


@triton.jit
def read_rows(
    table: tl.tensor,
    sink: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    WORD: tl.constexpr,
    BLOCK: tl.constexpr,
    READERS: tl.constexpr,
) -> None:
    """Read every matrix, each block by READERS programs, and keep nothing of it."""
    base = tl.load(table + tl.program_id(1)).to(tl.pointer_type(WORD))
    element = (tl.program_id(0) // READERS).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = base + element // columns * row_stride + element % columns * column_stride
    found = tl.max(tl.load(at, mask=element < rows * columns, other=0).to(tl.int64), axis=0)
    if found == 0x7FFFFFFFFFFF:  # of no word; without a use the loads would not be compiled
        tl.store(sink, found)
