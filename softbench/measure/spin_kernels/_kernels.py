"""The Triton kernels that spin; imports triton, so only `softbench.measure.spin_kernels` imports it, in a worker."""

import triton
import triton.language as tl


@triton.jit
def now() -> tl.tensor:
    """The GPU's timer in ns; volatile, so that a loop reads it again each time."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, is_pure=False, pack=1)


@triton.jit
def spun(ns: tl.tensor) -> tl.tensor:
    """Spin from one step of the timer to the first one at least ns later; the ns between them."""
    before = now()
    start = now()
    while start == before:
        start = now()
    stop = start
    while stop - start < ns:
        stop = now()
    return stop - start


@triton.jit(do_not_specialize=["ns"])
def softbench_spin(spun_ptr: tl.tensor, ns: tl.tensor) -> None:
    """spun_ptr[0] = the ns that it spun."""
    tl.store(spun_ptr, spun(ns))


@triton.jit(do_not_specialize=["ns"])
def softbench_mark(ns: tl.tensor) -> None:
    """A mark, known in profiles by its name."""
    spun(ns)
