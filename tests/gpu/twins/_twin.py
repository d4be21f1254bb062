"""One row a program: the same kernel for all twins; a slower twin does a share of the rows twice."""

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, y, rows, columns: tl.constexpr):
    row = (tl.program_id(0) % rows).to(tl.int64)
    at = row * columns + tl.arange(0, columns)
    value = tl.load(x + at).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + at, (power / tl.sum(power, 0)).to(y.dtype.element_ty))


def softmax(x, extra_rows=0):
    y = torch.empty_like(x)
    rows, columns = x.shape
    rows_kernel[(rows + extra_rows,)](x, y, rows, columns, num_warps=8)
    return y
