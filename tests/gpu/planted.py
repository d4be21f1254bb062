"""A kernel with one mistake for each tool of compute-sanitizer, compiled as those of impls/cute are; runs one of them."""

from __future__ import annotations

import sys

import cutlass
import cutlass.cute as cute
from cutlass import Float32, const_expr

from impls.cute import _host, _launch

THREADS = 64


class Planted:
    """One CTA over x (64,) float32, with a mistake that `tool` reports."""

    def __init__(self, tool):
        self.tool = tool

    @cute.jit
    def __call__(self, x: cute.Tensor, stream: object) -> None:
        self.kernel(x).launch(grid=[1, 1, 1], block=[THREADS, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor) -> None:
        thread = cute.arch.thread_idx()[0]
        memory = cutlass.memory.SmemAllocator()
        shared = memory.allocate_tensor(Float32, cute.make_layout(THREADS), byte_alignment=16)
        if const_expr(self.tool == "memcheck"):
            x[thread] = x[thread + 1]  # the last thread's is one behind the allocation
        if const_expr(self.tool == "racecheck"):
            shared[thread] = x[thread]
            x[thread] = shared[THREADS - 1 - thread]  # the other warp's, without a barrier
        if const_expr(self.tool == "synccheck"):
            if thread < THREADS // 4 * 3:  # half of the second warp stays away
                cute.arch.sync_threads()
            x[thread] = x[thread] + 1


def build(tool, arch, options=""):
    """The compiled kernel, a function of x on torch's current stream; arch as in `_host.Build`."""
    _host._name(Planted, "cute_planted")  # the sanitizer looks at kernels of such a name
    x = cute.runtime.make_fake_tensor(Float32, (THREADS,), stride=(1,), assumed_align=4)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(Planted(tool), x, stream, options=f"--enable-tvm-ffi --gpu-arch {arch} {options}".strip())


def main(tool):
    import torch

    x = torch.zeros(THREADS).to("cuda")
    build(tool, _launch.gpu(0).arch)(x)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
