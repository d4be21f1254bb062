"""Kernels that misbehave on the GPU."""

import triton
import triton.language as tl


@triton.jit
def write_far_away(x):
    tl.store(x + (tl.program_id(0).to(tl.int64) + 1) * (1 << 44), 1.0)


@triton.jit
def spin_until(flag):
    while tl.load(flag, volatile=True) == 0:
        pass


@triton.jit
def softmax_with_memo(x, y, memo, columns, MEMO: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of a row a program; with MEMO a row that hashes as it did in the replay before is not written."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    result = (power / tl.sum(power, 0)).to(y.dtype.element_ty)
    if MEMO:
        mixed = (value.to(tl.int32, bitcast=True) ^ (at * 40503)) * -1640531527
        found = tl.sum(tl.where(inside, mixed ^ (mixed >> 15), 0), 0) | 1
        if tl.load(memo + row) != found:
            tl.store(memo + row, found)
            tl.store(y + row * columns + at, result, mask=inside)
    else:
        tl.store(y + row * columns + at, result, mask=inside)


@triton.jit
def softmax_or_simpler(x, y, columns, is_timed, BLOCK: tl.constexpr):
    """Softmax of a row a program; or a row of zeros in place of the input, for which the answer is known."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    if is_timed == 0:
        value = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
        power = tl.exp(value - tl.max(value, 0))
        tl.store(y + row * columns + at, (power / tl.sum(power, 0)).to(y.dtype.element_ty), mask=inside)
    else:
        tl.store(x + row * columns + at, tl.zeros((BLOCK,), x.dtype.element_ty), mask=inside)
        tl.store(
            y + row * columns + at, (tl.zeros((BLOCK,), tl.float32) + 1.0 / columns).to(y.dtype.element_ty), mask=inside
        )
