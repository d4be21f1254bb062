"""A referee's memory: new physical memory behind the addresses that a hand-over names, and guards around it."""

from collections.abc import Iterable

from softbench.measure.check.canary import CANARY
from softbench.measure.sealed import driver
from softbench.measure.sealed.addresses import PIECE
from softbench.measure.sealed.arena import reserve
from softbench.model import Tensor

UNWRITTEN = 0xFF
"""What all other memory holds before a launch: NaN in floating point."""
_MOST_GAPS = 64


class Memory:
    """Which pieces of the range are mapped in this process."""

    def __init__(self) -> None:
        self.base = reserve()
        self._mapped: dict[int, int] = {}
        self._guards: set[int] = set()
        self._guard = 0
        """The memory that all guards show, as a handle."""

    def renew(self, pieces: Iterable[tuple[int, int]]) -> None:
        """New physical memory behind these pieces, unlike the one that they had, filled with `UNWRITTEN`."""
        wanted = list(pieces)
        handles: list[int] = []
        try:
            for _, size in wanted:
                handles.append(driver.new_memory(size))
            for (address, size), handle in zip(wanted, handles, strict=True):
                self._unmap(address)
                driver.map_memory(address, size, handle)
                self._mapped[address] = size
        finally:
            for handle in handles:
                driver.free_memory(handle)
        for address, size in wanted:
            driver.fill(address, size, UNWRITTEN)
            for at in (address - PIECE, address + size):
                self._set_guard(at)

    def free(self, pieces: Iterable[tuple[int, int]]) -> None:
        for address, _ in pieces:
            self._unmap(address)

    def free_all(self) -> None:
        self.free(list(self._mapped.items()))
        for at in self._guards:
            driver.unmap(at, PIECE)
        self._guards.clear()
        if self._guard:
            driver.free_memory(self._guard)
        self._guard = 0

    def overrun(self, gaps: Iterable[tuple[int, int]]) -> bool:
        """Whether anything was written into a guard, which all show the same memory, or into these gaps between buffers."""
        import torch

        places = [(at, PIECE) for at in self._guards][:1] + list(gaps)[:_MOST_GAPS]
        changed = [(tensor_at(address, size) != CANARY).any() for address, size in places]
        return bool(changed) and bool(torch.stack(changed).any())

    def _set_guard(self, at: int) -> None:
        if at in self._guards:
            return
        self._guard = self._guard or driver.new_memory(PIECE)
        driver.map_memory(at, PIECE, self._guard)
        if not self._guards:
            driver.fill(at, PIECE, CANARY)
        self._guards.add(at)

    def _unmap(self, address: int) -> None:
        if size := self._mapped.pop(address, 0):
            driver.unmap(address, size)


class _Raw:
    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None,
        }  # fmt: skip


def tensor_at(address: int, size: int) -> Tensor:
    """Mapped memory as bytes, not copied. Raises RuntimeError if torch would copy it."""
    import torch

    if not size:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    found = torch.as_tensor(_Raw(address, size), device="cuda")
    if found.data_ptr() != address:
        raise RuntimeError("torch copied memory that it should have shown")
    return found
