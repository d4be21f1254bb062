"""Honest launches of unusual graphs; the first word of a name says how they run."""

from __future__ import annotations

import ctypes
import types

from softbench import implementation


@implementation(operator="softmax", requires=["cuda", "torch"])
def sealed_copies_and_fills(case):
    import torch

    def launch(x):
        y = torch.zeros_like(x)
        y.copy_(x)
        return torch.softmax(y, -1).clone()

    return launch


@implementation(operator="softmax", requires=["cuda", "torch"])
def sealed_streams(case):
    """Two streams, joined in the capture."""
    import torch

    side = torch.cuda.Stream()

    def launch(x):
        current, middle = torch.cuda.current_stream(), x.shape[0] // 2
        y = torch.empty_like(x)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            torch.softmax(x[middle:], -1, out=y[middle:])
        torch.softmax(x[:middle], -1, out=y[:middle])
        current.wait_stream(side)
        return y

    return launch


@implementation(operator="softmax", requires=["cuda", "torch"])
def sealed_counter(case):
    """A workspace that counts up, and starts again at the end of its launch."""
    import torch

    count = torch.zeros(1, dtype=torch.int64, device="cuda")

    def launch(x):
        count.add_(1)
        y = torch.softmax(x, -1) * count.to(x.dtype)
        count.sub_(1)
        return y

    return launch


@implementation(operator="softmax", requires=["cuda", "torch", "triton"])
def sealed_kernels_of_one_name(case):
    """Two compilations of one kernel."""
    import torch

    from ._kernels import scaled

    def launch(x):
        y, z = torch.softmax(x, -1), torch.empty_like(x)
        scaled[(x.shape[0],)](y, z, x.shape[1], 0.5, BLOCK=2048, num_warps=4)
        scaled[(x.shape[0],)](z, y, x.shape[1], 2.0, BLOCK=2048, num_warps=8)
        return y

    return launch


@implementation(operator="softmax", requires=["cuda", "torch"])
def sealed_many_nodes(case):
    def launch(x):
        e = (x - x.amax(-1, keepdim=True)).exp()
        for _ in range(20):
            e = e * 1.0
        return e / e.sum(-1, keepdim=True)

    return launch


@implementation(operator="softmax", requires=["cuda", "torch"])
def open_own_memory(case):
    """Memory that torch did not allocate."""
    import torch

    runtime = ctypes.CDLL("libcudart.so.13") if torch.version.cuda.startswith("13") else ctypes.CDLL("libcudart.so.12")
    at = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(4 * case.rows))

    own = types.SimpleNamespace()
    own.__cuda_array_interface__ = {"shape": (case.rows, 1), "typestr": "<f4", "data": (at.value, False), "version": 3}
    highest = torch.as_tensor(own, device="cuda")

    def launch(x):
        torch.amax(x, -1, keepdim=True, out=highest)
        return torch.softmax(x - highest, -1)

    return launch
