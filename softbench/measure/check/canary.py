"""Known bytes after the outputs of a launch on CUDA, which show whether it wrote past an end."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softbench.cases.operators import OutputSpec
from softbench.cases.operators.outputs import STREAM_BYTES, as_tuple
from softbench.model import Tensor

CANARY = 0xCB  # -15.6 in float16, -2.7e7 in float32 and bfloat16: no right value, so an unwritten element shows too
CANARY_BYTES = 2**16
ALLOCATION_BYTES = 512  # torch's CUDA allocator rounds sizes up to this
SMALL_POOL_BYTES = 2**20  # and keeps requests up to this size in a pool of their own


@dataclass(frozen=True)
class Canaries:
    """Freed memory of the CUDA allocator, filled with canaries.

    regions  (first address, end) of each stretch
    device   "cuda" or "cuda:1"
    history  what the allocator has done before the launch: see `_history`
    """

    regions: tuple[tuple[int, int], ...]
    device: str
    history: tuple[int, int]

    def overrun(self, outputs: Any) -> str:
        """What was written past the end of an output; "" if nothing was, or if it cannot be judged.

        It can be judged if the launch has allocated only the outputs' storages, all of them in the regions: then the other bytes
        there are free. Any further tensor, even one that is freed again, may have left bytes after an output, also in the same
        block of 512.
        """
        import torch

        returned = as_tuple(outputs)
        tensors = {i: y for i, y in enumerate(returned) if _has_storage(y)}
        ends = {y.untyped_storage().data_ptr(): _end(y) for y in tensors.values()}
        limits = [self._limit(start, end, sorted(ends)) for start, end in ends.items()]
        if not ends or 0 in limits or _history(self.device) != (self.history[0] + len(ends), self.history[1]):
            return ""
        torch.cuda.synchronize(self.device)
        for (start, end), limit in zip(ends.items(), limits, strict=True):
            changed = [i for i, byte in enumerate(_read(end, limit - end)) if byte != CANARY]
            if changed:
                number = max(i for i, y in tensors.items() if y.untyped_storage().data_ptr() == start)
                which = "the output" if len(returned) == 1 else f"output {number}"
                return f"wrote past the end of {which}: {len(changed)} bytes changed, first {changed[0]} bytes after it"
        return ""

    def _limit(self, start: int, end: int, starts: Sequence[int]) -> int:
        """The end of the free bytes after a storage; 0 for a storage that lies in no region."""
        region = next((last for first, last in self.regions if first <= start and end <= last), 0)
        return min([region, *(other for other in starts if other > start)])


def _has_storage(y: Any) -> bool:
    import torch

    return isinstance(y, torch.Tensor) and y.layout is torch.strided and y.numel() > 0


def _end(y: Tensor) -> int:
    storage = y.untyped_storage()
    return int(storage.data_ptr()) + int(storage.nbytes())


def plant(specs: Sequence[OutputSpec], device: str) -> Canaries | None:
    """Fill the blocks that the next outputs will probably get, and free them; None if there are none."""
    import torch

    sizes = [size for spec in specs if (size := math.prod(spec.shape) * STREAM_BYTES[spec.dtype])]
    if not sizes:
        return None
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()  # so that no other free block fits better
    try:
        blocks = [torch.full((_planted(size),), CANARY, dtype=torch.uint8, device=device) for size in sizes]
    except torch.cuda.OutOfMemoryError:
        return None
    torch.cuda.synchronize(device)
    regions = _joined([(block.data_ptr(), block.data_ptr() + block.numel()) for block in blocks])
    del blocks
    return Canaries(regions, device, _history(device))


def _planted(needed: int) -> int:
    """Bytes of the block for an output of this many bytes, from the same pool as the output."""
    size = _round_up(needed) + CANARY_BYTES
    return min(size, SMALL_POOL_BYTES) if _round_up(needed) <= SMALL_POOL_BYTES else size


def _joined(regions: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Regions by address; adjacent freed blocks become one, from which the allocator cuts outputs at will."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(regions):
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return tuple(found)


def _round_up(size: int) -> int:
    return -(-size // ALLOCATION_BYTES) * ALLOCATION_BYTES


def _history(device: str) -> tuple[int, int]:
    """Allocations of this process, and segments that it returned to the driver, which gives out others' bytes for them."""
    import torch

    statistics = torch.cuda.memory_stats(device)
    return int(statistics.get("allocation.all.allocated", 0)), int(statistics.get("segment.all.freed", 0))


def _read(address: int, size: int) -> bytes:
    """Bytes of device memory that no tensor covers; none if the driver cannot read them."""
    if size <= 0:
        return b""
    buffer = ctypes.create_string_buffer(size)
    try:
        copy = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoH_v2
    except (OSError, AttributeError):
        return b""
    copy.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t)
    return buffer.raw if copy(buffer, address, size) == 0 else b""
