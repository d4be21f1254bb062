"""Launches that were handed over, in a referee: one graph, with tensors for its buffers."""

from collections.abc import Callable, Container, Sequence
from ctypes import c_void_p
from functools import partial
from typing import Any

from softbench.measure.check.canary import ALLOCATION_BYTES, CANARY
from softbench.measure.sealed import driver
from softbench.measure.sealed.addresses import overlap, without
from softbench.measure.sealed.handover import BadHandOver, Package, Unit
from softbench.measure.sealed.memory import UNWRITTEN, Memory, tensor_at
from softbench.measure.sealed.rebuild import Rebuilt
from softbench.model import Tensor

Inputs = tuple[Any, ...]
Slack = tuple[tuple[int, int], ...]
MOST_RESTORED = 64
"""Stretches beside the buffers and workspaces that are overwritten before every replay, the largest ones."""


class SealedUnit:
    """Launches of a hand-over with tensors for their buffers, which exist while its memory is mapped."""

    def __init__(
        self,
        unit: Unit,
        package: Package,
        memory: Memory,
        rebuilt: Rebuilt,
        like: Sequence[Tensor],
        slack: Slack,
        over: Container[int],
    ) -> None:
        self._unit, self._package, self._memory, self._rebuilt, self._slack = unit, package, memory, rebuilt, slack
        found = package.found
        self.pieces = [found.pieces[number] for number in unit.pieces]
        self._graph: c_void_p | None = None
        self._spaces = [s for s in found.workspaces if any(a <= s[0] < a + size for a, size in self.pieces)]
        self._buffers = self._check(like, over)
        self._like = [(x.shape, x.stride(), x.storage_offset(), x.dtype, x.untyped_storage().nbytes()) for x in like]
        self._saved: list[tuple[int, Tensor]] = []
        self.inputs: list[Inputs] = []
        """Tensors for every set of inputs."""
        self.outputs: list[Any] = []
        """What each launch returned: tensors, in a tuple if there are several."""
        rest = [part for piece in self.pieces for part in without(piece, [*self._buffers, *slack])]
        self._rest = sorted((part for part in rest if part[1] >= ALLOCATION_BYTES), key=lambda part: -part[1])[:MOST_RESTORED]
        self.is_mapped = False

    @property
    def counts(self) -> tuple[int, int]:
        """Launches, and sets of inputs."""
        return len(self._unit.outputs), len(self._unit.inputs)

    def _check(self, like: Sequence[Tensor], over: Container[int]) -> list[tuple[int, int]]:
        """All buffers. Raises BadHandOver if two of them overlap, or an input does not fit.

        over  the numbers of the outputs that may be inputs
        """
        sizes = [x.untyped_storage().nbytes() for x in like]
        inputs = []
        for addresses in self._unit.inputs:
            if len(addresses) != len(sizes):
                raise BadHandOver(f"it names {len(addresses)} inputs of {len(sizes)}")
            inputs += list(zip(addresses, sizes, strict=True))
        for address, size in inputs:
            if size and not any(a <= address and address + size <= a + n for a, n in self.pieces):
                raise BadHandOver("it names an input outside of its memory")
        outputs = [part for call in own_outputs(self._unit, over) for part in set(call) if part[1]]
        spaces = [(address, size) for address, size, _ in self._spaces]
        if overlap([*inputs, *outputs, *spaces, *self._slack]):
            raise BadHandOver("it names buffers that overlap")
        return [*inputs, *outputs, *spaces]

    def renew(self) -> None:
        """New memory, with the workspaces as they were handed over, and everything else unwritten."""
        import torch

        torch.cuda.synchronize()
        self._memory.renew(self.pieces)
        self.settle()

    def settle(self) -> None:
        """Take what `renew` of this unit, or of another in the same memory, has mapped."""
        import torch

        self._saved = [
            (address, torch.frombuffer(bytearray(self._package.data[at : at + size]), dtype=torch.uint8).cuda())
            for address, size, at in self._spaces
            if size
        ]
        for address, size in self._slack:
            driver.fill(address, size, CANARY)
        self._graph = self._graph or self._rebuilt.graph(self._unit)  # the driver asks for mapped memory
        self.inputs, self.outputs = self._shown_inputs(), self._shown_outputs()
        self.is_mapped = True
        self.restore()

    def free(self, but: Container[tuple[int, int]] = ()) -> None:
        """Give back all pieces but some."""
        self._memory.free(piece for piece in self.pieces if piece not in but)
        for held in (self._saved, self.inputs, self.outputs):
            held.clear()
        self.is_mapped = False

    def restore(self) -> None:
        """Put back what the workspaces held, and overwrite what lies beside all buffers."""
        for address, saved in self._saved:
            driver.copy(address, saved.data_ptr(), saved.numel())
        for address, size in self._rest:
            driver.fill(address, size, UNWRITTEN)

    def _shown_inputs(self) -> list[Inputs]:
        return [
            tuple(
                tensor_at(address, size).view(dtype).as_strided(shape, strides, offset)
                for address, (shape, strides, offset, dtype, size) in zip(addresses, self._like, strict=True)
            )
            for addresses in self._unit.inputs
        ]

    def _shown_outputs(self) -> list[Any]:
        import torch

        found = []
        for call in self._unit.outputs:
            tensors = []
            for y in call:
                if not isinstance(dtype := getattr(torch, y.dtype, None), torch.dtype):
                    raise BadHandOver(f"it names the dtype {y.dtype[:20]!r}")
                size = y.size // dtype.itemsize * dtype.itemsize
                tensors.append(tensor_at(y.address, size).view(dtype).as_strided(y.shape, y.strides, y.offset))
            found.append(tensors[0] if len(tensors) == 1 else tuple(tensors))
        return found

    def misdeed(self) -> str:
        """What was written beside the buffers; "" if nothing was."""
        if self._memory.overrun(self._slack):
            return "wrote past the end of the output: bytes behind it, or around its memory, changed"
        return ""

    def run(self) -> None:
        _replay(self._graph)

    def replay_of(self, part: Unit) -> Callable[[], None]:
        """Replays some of the launches, in a graph of their own."""
        return partial(_replay, self._rebuilt.graph(part))


def own_outputs(unit: Unit, over: Container[int]) -> list[list[tuple[int, int]]]:
    """The storages of each call's outputs, but for inputs that are outputs whose numbers are in `over`."""
    inputs = {address for call in unit.inputs for address in call}
    return [[(y.address, y.size) for n, y in enumerate(call) if not (n in over and y.address in inputs)] for call in unit.outputs]


def _replay(graph: c_void_p | None) -> None:
    driver.driver().cuGraphLaunch(graph, c_void_p(0))
