"""Host side of the attention kernels: the switches of a form, and a launch that packs arguments and enqueues."""

import math
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from softbench import Unsupported, keys_of, scale_of

from . import _driver, _nvrtc
from ._host import C_TYPES

SOURCE, KERNEL = "attention.cu", "attention"
TILE = 64  # queries of a block, and keys of a tile, as in the kernel
THREADS = 128
DIMENSIONS = (64, 128)
VECTOR_ELEMENTS = 8  # of 16 bytes
STRIP_BYTES = 16 * (TILE + 8) * 2 + 3 * 16 * 4  # scores and statistics of a warp's 16 rows
MOST_BLOCKS = 2**31 - 1
MOST_ROWS = 2**30
MOST_STRIDE = 2**24  # of a row, so that the rows of a thread lie less than 2^31 apart
# The structure `Arguments` of the kernel: of q, k and v a pointer and three strides; the output; scale and numbers; padding.
ARGUMENTS = struct.Struct("@QqqqQqqqQqqqQfIIiiI")
SWITCH = "USE_FUSED_SOFTMAX"


@dataclass(frozen=True)
class Form:
    """One setting of the kernel's switches."""

    is_fused: bool
    uses_tensor_cores_for_pv: bool = True

    def macros(self, case) -> dict[str, str]:
        return {
            "INPUT": C_TYPES[case.dtype],
            "HEAD_DIM": str(case.columns),
            SWITCH: str(int(self.is_fused)),
            "USE_MMA_PV": str(int(self.uses_tensor_cores_for_pv)),
        }

    def shared_bytes(self, case) -> int:
        """Shared memory of a block: a tile of Q, two of K and V each, and the staged forms' scores and statistics."""
        return 5 * TILE * case.columns * 2 + (0 if self.is_fused else THREADS // 32 * STRIP_BYTES)


SCALAR, STAGED, FUSED = Form(False, False), Form(False), Form(True)


def chosen() -> Form:
    """FUSED, or STAGED where the environment variable USE_FUSED_SOFTMAX is 0."""
    return STAGED if os.environ.get(SWITCH) == "0" else FUSED


def cubin(case, form: Form, arch: str) -> bytes:
    """The kernel in one form for a case. Raises Unsupported for other head dimensions than `DIMENSIONS`."""
    if case.columns not in DIMENSIONS:
        raise Unsupported(f"a head dimension of {case.columns}; the kernel is written for 64 and 128")
    return _nvrtc.cubin(SOURCE, form.macros(case), arch)


def cubins(case, form: Form) -> Iterator[tuple[str, bytes]]:
    """(kernel, sm_90a cubin) of a case; without a GPU."""
    code = cubin(case, form, "sm_90a")
    if case.elements:
        yield KERNEL, code


def prepare(case, form: Form) -> Callable[..., Any]:
    """launch(q, k, v) -> out on the device that is current now.

    q, k, v and out are as in `softbench.cases.operators.attention`, out contiguous. Inputs whose rows do not begin at multiples
    of 16 bytes, or whose components are not neighbours, are copied first. Raises Unsupported as `cubin`, and for more queries or
    keys than the kernel numbers.
    """
    import torch

    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    arch = f"sm_{properties.major}{properties.minor}" + ("a" if properties.major == 9 else "")
    code = cubin(case, form, arch)
    if case.elements == 0:
        return lambda q, k, v: torch.empty(q.shape, dtype=q.dtype, device=q.device)
    torch.cuda.synchronize()  # makes the device's primary context current, in which the kernel is loaded
    (function,) = _driver.functions(code, (KERNEL,), device)
    shared_bytes = form.shared_bytes(case)
    if not _driver.residents(function, THREADS, shared_bytes):
        raise Unsupported(f"a multiprocessor holds no block with {shared_bytes} bytes shared")
    return launch_of(case, form, function, torch.device("cuda", device))


def launch_of(case, form: Form, function, device) -> Callable[..., Any]:
    """The launch of a loaded kernel."""
    import torch

    batch, heads, queries, _ = case.shape
    keys = keys_of(case)
    blocks = -(-queries // TILE)
    if batch * heads * blocks > MOST_BLOCKS or max(queries, keys) > MOST_ROWS:
        raise Unsupported(f"{batch * heads} heads of {queries} queries and {keys} keys are more than the kernel numbers")
    causal = int(case.operator == "attention_causal")
    numbers = (scale_of(case) * math.log2(math.e), heads, blocks, queries, keys, causal)
    empty_like, contiguous, pack = torch.empty_like, torch.contiguous_format, ARGUMENTS.pack_into
    current_stream = torch._C._cuda_getCurrentRawStream
    enqueue = _driver.Launcher(ARGUMENTS.size)
    shape = (batch * heads * blocks, THREADS, enqueue.parameters())
    launches = (enqueue.special(function, *shape, form.shared_bytes(case), False),)

    def launch(q, k, v):
        out = empty_like(q, memory_format=contiguous)
        q, k, v = aligned(q), aligned(k), aligned(v)
        sources = (q.data_ptr(), *q.stride()[:3], k.data_ptr(), *k.stride()[:3], v.data_ptr(), *v.stride()[:3])
        enqueue(current_stream(device.index), pack, (*sources, out.data_ptr(), *numbers), launches)
        return out

    return launch


def aligned(x):
    """x itself, or a contiguous copy where the kernel cannot read 16 bytes at a time from its rows."""
    batch, head, row, component = x.stride()
    if component == 1 and not (batch | head | row) % VECTOR_ELEMENTS and row < MOST_STRIDE and not x.data_ptr() % 16:
        return x
    import torch

    return x.clone(memory_format=torch.contiguous_format)
