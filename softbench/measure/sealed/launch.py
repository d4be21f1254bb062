"""A launch as the referee has it: graphs over memory of its own, at the addresses that the author's launches knew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from softbench.cases import operators
from softbench.cases.operators.outputs import as_tuple
from softbench.measure.check.in_place import taken_out
from softbench.measure.clocks import GraphPlacement, Placement, spacer
from softbench.measure.incorrect import Incorrect
from softbench.measure.plans import Plan
from softbench.measure.sealed.addresses import overlap
from softbench.measure.sealed.handover import BadHandOver, Package, other_work
from softbench.measure.sealed.memory import UNWRITTEN, Memory
from softbench.measure.sealed.rebuild import Rebuilt
from softbench.measure.sealed.stream import Stream, stream
from softbench.measure.sealed.tensors import bytes_of, copy_of, stretch_of
from softbench.measure.sealed.unit import Inputs, SealedUnit, own_outputs
from softbench.model import Case, Tensor


class SealedLaunch:
    """Calls and places launches that were handed over; the inputs are copied to where they are known.

    And back, if the operator overwrites none; otherwise calls end as `taken_out`.

    like  inputs of the case, for their layout; they need no values
    """

    def __init__(self, package: Package, memory: Memory, like: Sequence[Tensor], case: Case) -> None:
        import torch

        self._case, self._operator, self._over = case, operators.get(case.operator), operators.overwritten(case.operator)
        self._torch, self._package = torch, package
        if package.found.base != memory.base:
            raise BadHandOver("it names addresses that this process does not have")
        self._rebuilt = Rebuilt(package)
        if why := other_work(package.found):
            raise BadHandOver(why)
        found = package.found.units
        if overlap([part for unit in found[:2] for call in own_outputs(unit, self._over) for part in call]):
            raise BadHandOver("one static buffer: two launches returned the same memory")
        slack = tuple({part for unit in found[:2] for part in unit.slack})
        self._checks = [SealedUnit(unit, package, memory, self._rebuilt, like, slack, self._over) for unit in found[:2]]
        self._timed = [SealedUnit(unit, package, memory, self._rebuilt, like, unit.slack, self._over) for unit in found[2:]]
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
            self.renew()
        places, outputs = unit.inputs[0], as_tuple(unit.outputs[0])
        for place, x in zip(places, inputs, strict=True):
            bytes_of(place).copy_(bytes_of(x))
        if not is_again:
            unit.restore()
        taken = {bytes_of(place).data_ptr() for place in places}
        for own in (bytes_of(y) for y in outputs):
            if own.data_ptr() not in taken:
                own.fill_(UNWRITTEN)
        unit.run()
        if self._over:
            outputs = as_tuple(taken_out(self._case, inputs, places, unit.outputs[0]))
        else:
            for place, x in zip(places, inputs, strict=True):
                bytes_of(x).copy_(bytes_of(place))
        copies = [y if number in self._over else copy_of(y) for number, y in enumerate(outputs)]
        if why := unit.misdeed():
            raise Incorrect(why)
        return copies[0] if len(copies) == 1 else tuple(copies)

    def bare(self, *_: Tensor) -> None:
        """`again` on `places`, without copies and checks around it, for clocks."""
        self._checks[self._calls % 2].run()

    @property
    def places(self) -> Inputs:
        """The inputs of the last call, where the launch knows them."""
        return self._checks[self._calls % 2].inputs[0]

    def renew(self) -> None:
        """New memory behind the launches of the checks."""
        self._checks[0].renew()
        self._checks[1].settle()  # both are in one memory

    def free(self) -> None:
        """Give back the memory of the checks, but for what a placement uses as well."""
        self._torch.cuda.synchronize()
        used = {piece for unit in self._timed if unit.is_mapped for piece in unit.pieces}
        for unit in self._checks:
            unit.free(used)

    def close(self) -> None:
        for unit in self._timed:
            unit.free()
        self.free()
        self._rebuilt.close()

    def place(self, plan: Plan, seed: int) -> SealedPlacement:
        """Put new memory behind the timed launches, and draw their inputs."""
        kept = spacer("cuda")
        unit = self._drawn(plan, seed)
        del kept
        buffers = Placement(self._operator, self._case, "cuda", plan, seed, unit.inputs)
        buffers.outputs += unit.outputs
        self._torch.cuda.empty_cache()
        return SealedPlacement(unit, buffers, is_warm=plan.cache == "warm")

    def stream(self, plan: Plan, seed: int, calls: int) -> Stream:
        """At least 2 * `calls` timed launches in a row, for a profiler."""
        unit = self._drawn(plan, seed)
        self._torch.cuda.synchronize()
        return stream(self._package, calls, unit.replay_of)

    def _drawn(self, plan: Plan, seed: int) -> SealedUnit:
        """The timed launches in new memory, with inputs."""
        unit = next(iter(self._timed), None)
        if unit is None or unit.counts != (plan.launches, plan.inputs):
            raise BadHandOver("it names other launches than were asked for")
        unit.renew()
        for number, places in enumerate(unit.inputs):
            self._operator.refill(self._case, places, seed + number)
        return unit


class SealedPlacement(GraphPlacement):
    def __init__(self, unit: SealedUnit, buffers: Placement, *, is_warm: bool) -> None:
        super().__init__(buffers, unit.run, unit.free, unit.restore, is_warm=is_warm)
        self.misdeed = unit.misdeed

    def overwritten(self) -> str:
        """What is wrong if a replay changes inputs that it may not; "" if it does not.

        A kernel that makes its input simple, and answers for that, is right by what then lies there. One call is looked at, at a
        random place of each of its inputs: no kernel can know it.
        """
        rng = random.SystemRandom()
        self.restore()
        self.renew()
        chosen = [x for n, x in enumerate(rng.choice(self.buffers.inputs)) if n not in self.buffers.kept]
        parts = [stretch_of(bytes_of(x), rng) for x in chosen]
        copies = [part.clone() for part in parts]
        self.replay()
        is_same = all(bool((part == copy).all()) for part, copy in zip(parts, copies, strict=True))
        return "" if is_same else "the input was overwritten"
