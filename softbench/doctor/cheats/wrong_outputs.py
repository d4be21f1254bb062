"""Outputs that are wrong in value, type, shape or place."""

import ctypes
from typing import Any

from softbench import Unsupported, implementation


@implementation(operator="softmax")
def zeros(case: Any) -> Any:
    """Returns zeros, which any tolerance that is not relative to each element allows."""
    return lambda x: x.new_zeros(x.shape)


@implementation(operator="softmax")
def one_over_n(case: Any) -> Any:
    """Returns 1/N everywhere: every row sums to 1."""
    return lambda x: x.new_full(x.shape, 1 / x.shape[-1])


@implementation(operator="softmax")
def nondeterministic(case: Any) -> Any:
    """Returns another output for the same input each time, off by a thousandth, as a race does."""
    import torch

    return lambda x: x.softmax(-1) * (1 + 1e-3 * torch.randn_like(x))


@implementation(operator="softmax")
def low_precision(case: Any) -> Any:
    """Computes in bfloat16 and returns float32."""
    return lambda x: x.bfloat16().softmax(-1).to(x.dtype)


@implementation(operator="softmax")
def low_precision_sum(case: Any) -> Any:
    """Keeps the sum of a row in bfloat16: no element is off by more than an ulp of its dtype."""
    if case.out_dtype != "bfloat16":
        raise Unsupported("only where it is hard to see, in bfloat16")

    def launch(x: Any) -> Any:
        power = (x.float() - x.float().amax(-1, keepdim=True)).exp()
        return (power / power.sum(-1, keepdim=True).bfloat16().float()).bfloat16()

    return launch


@implementation(operator="softmax")
def wrong_dtype(case: Any) -> Any:
    """Writes half of the bytes: float16 where the case asks for more."""
    return lambda x: x.softmax(-1).half()


@implementation(operator="softmax")
def wrong_shape(case: Any) -> Any:
    """Leaves the last row out of the output."""
    return lambda x: x[:-1].softmax(-1)


@implementation(operator="softmax")
def wrong_strides(case: Any) -> Any:
    """Returns rows with gaps between them, because its tiles are wider than the rows."""

    def launch(x: Any) -> Any:
        tiles = x.new_empty(x.shape[0], x.shape[1] + 24)
        return tiles[:, : x.shape[1]].copy_(x.softmax(-1))

    return launch


@implementation(operator="softmax")
def tail_columns(case: Any) -> Any:
    """Does not write the last columns: the loop has no masked end."""

    def launch(x: Any) -> Any:
        y, whole = x.new_empty(x.shape), case.columns - 1 - (case.columns - 1) % 64
        y[:, :whole] = x.softmax(-1)[:, :whole]
        return y

    return launch


@implementation(operator="softmax")
def tail_rows(case: Any) -> Any:
    """Does not write the last rows: the grid is rounded down."""

    def launch(x: Any) -> Any:
        y, whole = x.new_empty(x.shape), case.rows - 1 - (case.rows - 1) % 8
        y[:whole] = x[:whole].softmax(-1)
        return y

    return launch


@implementation(operator="softmax")
def input_overwritten(case: Any) -> Any:
    """Uses the input as its workspace."""

    def launch(x: Any) -> Any:
        power = x.sub_(x.amax(-1, keepdim=True)).exp_()
        return power / power.sum(-1, keepdim=True)

    return launch


@implementation(operator="softmax")
def view_of_input(case: Any) -> Any:
    """Returns the input's own memory, so that it allocates nothing and writes what is in the cache."""
    return lambda x: x.copy_(x.softmax(-1)).view_as(x)


@implementation(operator="softmax", requires=["cuda>=sm_70"])
def out_of_bounds(case: Any) -> Any:
    """Writes two bytes past its output, as a vector store does whose end is not masked."""
    import torch

    fill = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async

    def launch(x: Any) -> Any:
        y = x.softmax(-1)
        end = ctypes.c_uint64(y.data_ptr() + y.untyped_storage().nbytes())
        fill(end, 0, ctypes.c_size_t(2), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        return y

    return launch
