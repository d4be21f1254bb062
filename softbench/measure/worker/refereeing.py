"""A referee's worker: rebuilds, checks and times what an author handed over. It imports no implementation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from softbench.measure.check import check, watching
from softbench.measure.clocks import GraphClock, Launch
from softbench.measure.incorrect import Incorrect
from softbench.measure.plans import Plan
from softbench.measure.sealed import handover
from softbench.measure.sealed.launch import SealedLaunch
from softbench.measure.sealed.memory import Memory
from softbench.measure.worker.handler import RequestHandler, Slot
from softbench.measure.worker.wire import Message


class RefereeHandler(RequestHandler):
    """A worker whose launches are rebuilt from data; its memory is reserved before it has a context."""

    def __init__(self, device: str) -> None:
        self._memory = Memory()
        super().__init__(device, GraphClock())

    def do_take(self, request: Message) -> Message:
        """Rebuild one variant's launches, and check them; the resources of its kernels."""
        self.begin(request)
        self.phase = "launch"
        package = handover.read(Path(request["handed_over"]))
        like = self.operator.make_inputs(self.case, self.device, request["seed"])
        launch = SealedLaunch(package, self._memory, like)
        del like
        old = self.slots.pop(request["slot"], None)
        if old is not None:
            old.launch.close()
        if not request.get("is_checked"):
            verdict = check(self.case, launch, self.device, request["seed"], run=watching.run)
            if not verdict.ok:
                raise Incorrect(verdict.reason)
            if self.case.timed:
                self.clock.get_ready(self.case)
        launch.free()
        self.slots[request["slot"]] = Slot(launch)
        return {"kernels": [asdict(kernel) for kernel in launch.kernels]}

    def place(self, slot: Slot, plan: Plan, seed: int) -> Any:
        return slot.launch.place(self.operator, self.case, plan, seed)

    def bare(self, slot: Slot, seed: int) -> Launch:
        return slot.launch.bare(self.operator.make_inputs(self.case, self.device, seed))  # type: ignore[no-any-return]

    def repeat(self, slot: Slot) -> tuple[Any, Any]:
        return slot.placement.buffers.repeat(slot.launch, slot.launch.again)  # type: ignore[no-any-return]

    def do_verify(self, request: Message) -> Message:
        if wrong := self.slots[request["slot"]].launch.misdeed():
            raise Incorrect(wrong)
        return super().do_verify(request)

    def do_release(self, request: Message) -> Message:
        for slot in self.slots.values():
            if slot.placement is not None:
                slot.placement.release()
            slot.launch.free()
        return super().do_release(request)

    def do_drop(self, request: Message) -> Message:
        for slot in self.slots.values():
            slot.launch.close()
        answer = super().do_drop(request)
        self._memory.free_all()
        return answer
