"""Writes two bytes behind its output, as a vector store does whose end is not masked."""

from __future__ import annotations

import ctypes
from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch", "cuda>=sm_70"])
def out_of_bounds(case: Any) -> Any:
    import torch

    fill = ctypes.CDLL("libcuda.so.1").cuMemsetD8_v2

    def launch(x: Any) -> Any:
        y = torch.softmax(x, dim=-1)
        fill(ctypes.c_uint64(y.data_ptr() + y.untyped_storage().nbytes()), 0, ctypes.c_size_t(2))
        return y

    return launch
