"""A launch as the referee has it: graphs over memory of its own, at the addresses that the author's launches knew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any

from softbench.cases.operators import Operator
from softbench.measure.check.canary import ALLOCATION_BYTES, CANARY
from softbench.measure.clocks import GraphPlacement, Placement, spacer
from softbench.measure.incorrect import Incorrect
from softbench.measure.plans import Plan
from softbench.measure.sealed import driver
from softbench.measure.sealed.addresses import overlap, without
from softbench.measure.sealed.handover import BadHandOver, Package, Unit, other_work
from softbench.measure.sealed.memory import UNWRITTEN, Memory, tensor_at
from softbench.measure.sealed.rebuild import Rebuilt

if TYPE_CHECKING:
    from torch import Tensor

    from softbench.model import Case

Inputs = tuple[Any, ...]
Slack = tuple[tuple[int, int], ...]
MOST_RESTORED = 64
"""Stretches beside the buffers and workspaces that are overwritten before every replay, the largest ones."""


class _Unit:
    """Launches of a hand-over with tensors for their buffers, which exist while its memory is mapped."""

    def __init__(
        self, unit: Unit, package: Package, memory: Memory, rebuilt: Rebuilt, like: Sequence[Tensor], slack: Slack
    ) -> None:
        self._unit, self._package, self._memory, self._rebuilt, self._slack = unit, package, memory, rebuilt, slack
        found = package.found
        self.pieces = [found.pieces[number] for number in unit.pieces]
        self._graph: c_void_p | None = None
        self._spaces = [s for s in found.workspaces if any(a <= s[0] < a + size for a, size in self.pieces)]
        self._buffers = self._check(like)
        self._like = [(x.shape, x.stride(), x.storage_offset(), x.dtype, x.untyped_storage().nbytes()) for x in like]
        self._saved: list[tuple[int, Tensor]] = []
        rest = [part for piece in self.pieces for part in without(piece, [*self._buffers, *slack])]
        self._rest = sorted((part for part in rest if part[1] >= ALLOCATION_BYTES), key=lambda part: -part[1])[
            :MOST_RESTORED
        ]
        self.is_mapped = False

    @property
    def counts(self) -> tuple[int, int]:
        """Launches, and sets of inputs."""
        return len(self._unit.outputs), len(self._unit.inputs)

    def _check(self, like: Sequence[Tensor]) -> list[tuple[int, int]]:
        """All buffers. Raises BadHandOver if two of them overlap, or an input does not fit."""
        sizes = [x.untyped_storage().nbytes() for x in like]
        inputs = []
        for addresses in self._unit.inputs:
            if len(addresses) != len(sizes):
                raise BadHandOver(f"it names {len(addresses)} inputs of {len(sizes)}")
            inputs += list(zip(addresses, sizes, strict=True))
        for address, size in inputs:
            if size and not any(a <= address and address + size <= a + n for a, n in self.pieces):
                raise BadHandOver("it names an input outside of its memory")
        outputs = [part for call in self._unit.outputs for part in {(y.address, y.size) for y in call if y.size}]
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
        self.is_mapped = True
        self.restore()

    def free(self) -> None:
        self._memory.free(self.pieces)
        self._saved.clear()
        self.is_mapped = False

    def restore(self) -> None:
        """Put back what the workspaces held, and overwrite what lies beside all buffers."""
        for address, saved in self._saved:
            driver.copy(address, saved.data_ptr(), saved.numel())
        for address, size in self._rest:
            driver.fill(address, size, UNWRITTEN)

    def inputs(self) -> list[Inputs]:
        """Tensors for every set of inputs."""
        return [
            tuple(
                tensor_at(address, size).view(dtype).as_strided(shape, strides, offset)
                for address, (shape, strides, offset, dtype, size) in zip(addresses, self._like, strict=True)
            )
            for addresses in self._unit.inputs
        ]

    def outputs(self) -> list[Any]:
        """What each launch returned: tensors, in a tuple if there are several."""
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
        driver.driver().cuGraphLaunch(self._graph, c_void_p(0))


class SealedLaunch:
    """Calls and places launches that were handed over; the inputs are copied to where they are known, and back.

    like  inputs of the case, for their layout
    """

    def __init__(self, package: Package, memory: Memory, like: Sequence[Tensor]) -> None:
        import torch

        self._torch, self._memory = torch, memory
        self._rebuilt = Rebuilt(package)
        if why := other_work(package.found):
            raise BadHandOver(why)
        found = package.found.units
        if overlap([(y.address, y.size) for unit in found[:2] for call in unit.outputs for y in call]):
            raise BadHandOver("one static buffer: two launches returned the same memory")
        slack = tuple({part for unit in found[:2] for part in unit.slack})
        self._checks = [_Unit(unit, package, memory, self._rebuilt, like, slack) for unit in found[:2]]
        self._timed = [_Unit(unit, package, memory, self._rebuilt, like, unit.slack) for unit in found[2:]]
        self._calls = 0
        self.kernels = self._rebuilt.resources

    def __call__(self, *inputs: Tensor) -> Any:
        """Replay one launch on these inputs: the outputs in memory of their own. Raises Incorrect."""
        self._calls += 1
        return self._run(inputs, is_again=False)

    def again(self, *inputs: Tensor) -> Any:
        """The launch of the last call once more, which finds what that one left in its workspaces."""
        return self._run(inputs, is_again=True)

    def _run(self, inputs: Sequence[Tensor], *, is_again: bool) -> Any:
        unit = self._checks[self._calls % 2]
        if not unit.is_mapped:
            self._checks[0].renew()
            self._checks[1].settle()  # both are in one memory
        places = unit.inputs()[0]
        for place, x in zip(places, inputs, strict=True):
            _bytes(place).copy_(_bytes(x))
        if not is_again:
            unit.restore()
        for y in _flat(unit.outputs()[0]):
            _bytes(y).fill_(UNWRITTEN)
        unit.run()
        for place, x in zip(places, inputs, strict=True):
            _bytes(x).copy_(_bytes(place))
        copies = [_copy(y) for y in _flat(unit.outputs()[0])]
        if why := unit.misdeed():
            raise Incorrect(why)
        return copies[0] if len(copies) == 1 else tuple(copies)

    def bare(self, inputs: Sequence[Tensor]) -> Callable[..., None]:
        """A launch on these inputs without copies and checks around it, for clocks."""
        self(*inputs)
        return lambda *_: self._checks[self._calls % 2].run()

    def free(self) -> None:
        """Give back the memory of the checks."""
        self._torch.cuda.synchronize()
        for unit in self._checks:
            unit.free()

    def close(self) -> None:
        self.free()
        for unit in self._timed:
            unit.free()
        self._rebuilt.close()

    def place(self, operator: Operator, case: Case, plan: Plan, seed: int) -> GraphPlacement:
        """Put new memory behind the timed launches, and draw their inputs."""
        unit = self._timed[0]
        if unit.counts != (plan.launches, plan.inputs):
            raise BadHandOver("it names other launches than were asked for")
        kept = spacer("cuda")
        unit.renew()
        del kept
        buffers = Placement(operator, case, "cuda", plan, seed, unit.inputs())
        for number, places in enumerate(buffers.inputs):
            for place, x in zip(places, operator.make_inputs(case, "cuda", seed + number), strict=True):
                _bytes(place).copy_(_bytes(x))
        buffers.outputs += unit.outputs()
        self._torch.cuda.empty_cache()
        return GraphPlacement(buffers, unit.run, unit.free, unit.restore, is_warm=plan.cache == "warm")

    def misdeed(self) -> str:
        """What the timed launches wrote beside their buffers; "" if nothing."""
        return self._timed[0].misdeed()


def _flat(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _bytes(x: Tensor) -> Tensor:
    """The storage of a tensor as bytes."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage())


def _copy(y: Tensor) -> Tensor:
    """The same tensor in a storage of its own."""
    import torch

    held = torch.empty(_bytes(y).numel(), dtype=torch.uint8, device=y.device)
    held.copy_(_bytes(y))
    return held.view(y.dtype).as_strided(y.shape, y.stride(), y.storage_offset())
